"""A matplotlib figure that belongs to no backend and still shows itself in a notebook.

Imported only when a picture is drawn, since it imports matplotlib.
"""

from io import BytesIO

from matplotlib.figure import Figure


class Picture(Figure):
    """`Figure` made without pyplot: nothing to close, no global list of figures grows."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
