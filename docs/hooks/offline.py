"""Nothing from elsewhere: the theme's offline search asks another host for a script.

Ours, ``javascripts/worker.js``, takes its place in every page.
"""

from __future__ import annotations

import re

from mkdocs.utils import get_relative_url

ELSEWHERE = re.compile(r'<script src="https?://[^"]*"></script>')


def on_post_page(output: str, *, page, config) -> str:
    ours = get_relative_url("javascripts/worker.js", page.url)
    return ELSEWHERE.sub(f'<script src="{ours}"></script>', output)


def on_post_template(output_content: str, *, template_name, config) -> str:
    return ELSEWHERE.sub("", output_content)
