"""Writes share/, all of it made from the commands: completion scripts for bash, zsh and fish, and the man pages.

python -m docs.make_share
"""

from __future__ import annotations

from pathlib import Path

from docs import bash_completion, fish_completion, man_pages, zsh_completion

ROOT = Path(__file__).resolve().parent.parent


def files() -> dict[str, str]:
    """Return the text of each file by its path."""
    return {
        "share/bash-completion/completions/pulsarscope": bash_completion.script(),
        "share/zsh/site-functions/_pulsarscope": zsh_completion.script(),
        "share/fish/vendor_completions.d/pulsarscope.fish": fish_completion.script(),
        **{f"share/man/man1/{name}.1": text for name, text in man_pages.pages().items()},
    }


if __name__ == "__main__":
    for path, text in files().items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
