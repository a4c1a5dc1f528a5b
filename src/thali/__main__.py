"""``python -m thali`` is the command ``thali``."""

from thali.cli import main

if __name__ == "__main__":
    main()
