"""One-file pages: a template with its own style and script, which open from disk and load nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

TEMPLATES = Path(__file__).with_name("templates")


def render_page(
    template: str, *, styles: Sequence[str], script: str | Sequence[str] | None = None, **content: Any
) -> str:
    """The page of a template. styles, script: files beside it, which it gets as `style` and `script`, in this order.

    Its content security policy takes `style_hash` and `script_hash`: no other style or script may run.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = "\n" + "\n".join((TEMPLATES / name).read_text(encoding="utf-8") for name in styles)
    scripts = [script] if isinstance(script, str) else script or []
    code = "".join("\n" + (TEMPLATES / name).read_text(encoding="utf-8") for name in scripts)
    return environment.get_template(template).render(
        **content, style=Markup(style), script=Markup(code), style_hash=_hash(style), script_hash=_hash(code)
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
