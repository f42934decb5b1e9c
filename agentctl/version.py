"""The version, for `--version`, `init` and the User-Agent; pyproject.toml reads it from here."""

__version__ = "0.1.0"
