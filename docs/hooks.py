"""Hooks of the site: generated pages, files outside docs/, formulas without JavaScript."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from riskmatch.cli.app import COMMANDS, main
from riskmatch.cli.options import Option, format_value
from riskmatch.cli.parser import Parser
from riskmatch.registry import built_in

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]+)(#[^)\s]*)?\)")
VERBS = {
    "data": ("list", "get", "doctor"),
    "import": ("domainbed",),
    "sweep": ("plan", "run", "status", "retry", "table"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and every file of the repository that a page links to."""
    generated = {
        "command-line.md": command_line(),
        "gallery.md": gallery_page(),
        "methods.md": methods(),
    }
    for name, text in generated.items():
        files.append(File.generated(config, name, content=text))
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        source = waiting.pop()
        for path in linked(source):
            if files.get_file_from_path(in_site(path)) is None:
                added = publish(path, config)
                files.append(added)
                waiting += [added] * added.is_documentation_page()
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their place in the site."""
    here = in_repository(page.file.src_uri)

    def place(match: re.Match[str]) -> str:
        path = resolve(here, match[1])
        if (ROOT / path).is_dir():
            return "](#)"
        target = posixpath.relpath(in_site(path), posixpath.dirname(page.file.src_uri) or ".")
        return f"]({target}{match[2] or ''})"

    return re.sub(r"\[([^\]]*)\]\(#\)", r"\1", LINK.sub(place, markdown))  # folders: no link


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML, which browsers show by themselves."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        source = html.unescape(match[2]).strip()
        source = re.sub(r"\\(mathcal|mathbb) (\w)", r"\\\1{\2}", source)  # else letters stay plain
        return str(convert(source.removeprefix("\\(").removeprefix("\\[")[:-2], display=display))

    return re.sub(r'<(div|span) class="arithmatex">(.*?)</\1>', formula, content, flags=re.DOTALL)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script that lets the search work from the disk from the site, not the network."""
    shim = get_relative_url("assets/worker.js", page.url)
    return output.replace("https://unpkg.com/iframe-worker/shim", shim)


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for the page of links that lead nowhere."""
    return output_content.replace("https://unpkg.com/iframe-worker/shim", "assets/worker.js")


def in_repository(uri: str) -> str:
    """Path in the repository of a page of the site."""
    inside = (ROOT / "docs" / uri).exists()
    source = uri[:-3] + ".py" if uri.startswith("examples/") else uri
    return f"docs/{uri}" if inside or not (ROOT / source).exists() else uri


def in_site(path: str) -> str:
    """Path in the site of a file of the repository; a script becomes a page."""
    path = path.removeprefix("docs/")
    return f"{path[:-3]}.md" if path.endswith(".py") else path


def resolve(here: str, link: str) -> str:
    """Path in the repository that a link on the page ``here`` leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), link))


def linked(source: File) -> Iterator[str]:
    """Files outside docs/ that a page links to."""
    here = in_repository(source.src_uri)
    for match in LINK.finditer(source.content_string):
        path = resolve(here, match[1])
        if not path.startswith("docs/") and (ROOT / path).is_file():
            yield path


def publish(path: str, config: MkDocsConfig) -> File:
    """A file of the repository, a script as a page with its docstring and its code."""
    if not path.endswith(".py"):
        if path.endswith(".md"):
            return File.generated(config, in_site(path), content=(ROOT / path).read_text("utf-8"))
        return File.generated(config, in_site(path), abs_src_path=str(ROOT / path))
    source = (ROOT / path).read_text("utf-8")
    title, _, text = (ast.get_docstring(ast.parse(source)) or path).partition("\n")
    code = source.partition('"""\n\n')[2] if source.startswith('"""') else source
    picture = f"assets/gallery/{Path(path).stem}.png"
    shown = f"![{title}](../docs/{picture})\n\n" * (ROOT / "docs" / picture).exists()
    page = f"# {title.rstrip('.')}\n\n{shown}{text.strip()}\n\n`{path}`\n\n```python\n{code}```\n"
    return File.generated(config, in_site(path), content=page)


def gallery_page() -> str:
    """Every example with a picture: title, picture, the first paragraph of its text."""
    parts = [
        "# Gallery",
        "Scripts of less than 80 lines that run within a minute on a laptop, without downloads. "
        "`python examples/NAME.py` writes the picture to `out/`; `make pictures` makes all "
        "pictures of this site again. Their settings were chosen to illustrate, after a few tries; "
        "for evidence, see [What we found](findings.md).",
    ]
    for path in sorted((ROOT / "examples").glob("*.py")):
        if (ROOT / "docs" / "assets" / "gallery" / f"{path.stem}.png").exists():
            docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
            title, text = docstring.split("\n\n")[:2]
            parts.append(
                f"## {title.rstrip('.')}\n\n"
                f"[![{title}](assets/gallery/{path.stem}.png)](../examples/{path.name})\n\n"
                f"{' '.join(text.split())} [`{path.name}`](../examples/{path.name})"
            )
    return "\n\n".join(parts) + "\n"


class _Captured(BaseException):
    """Carries the parser of a command out of it."""


def parser_of(words: list[str]) -> Parser:
    """The parser of a command, taken where it would parse the words."""
    parse = Parser.parse

    def capture(self: Parser, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raise _Captured(self)

    Parser.parse = capture  # type: ignore[method-assign]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            main(words)
    except _Captured as captured:
        parser: Parser = captured.args[0]
        return parser
    finally:
        Parser.parse = parse  # type: ignore[method-assign]
    raise RuntimeError(f"riskmatch {' '.join(words)} did not parse its words.")


def command_line() -> str:
    """The reference of the command line, from the parsers."""
    parts = ["# Command line", "```text\n" + output_of(["--help"]) + "```"]
    for command, summary in COMMANDS.items():
        parts.append(f"## riskmatch {command}\n\n{summary[0].upper()}{summary[1:]}.")
        if command not in VERBS:
            parts += command_help([command])
        for verb in VERBS.get(command, ()):
            parts.append(f"### riskmatch {command} {verb}")
            parts += command_help([command, verb])
    return "\n\n".join(parts) + "\n"


def command_help(words: list[str]) -> Iterable[str]:
    """Help and options of one command."""
    parser = parser_of(words)
    text = re.sub(
        r"(?<=\S)\n(?=\S)", " ", parser.description or ""
    )  # paragraphs break where the page does
    yield f"``` {{ .text .wrap }}\n{text}\n```"
    options = {option.name: option for option in parser.options}
    for group in parser._action_groups:
        shown = [options[one.dest] for one in group._group_actions if one.dest in options]
        if shown:
            rows = "\n".join(map(option_row, shown))
            yield f"| {group.title} | meaning | default |\n| --- | --- | --- |\n{rows}"


def option_row(option: Option) -> str:
    """A row of the table of options."""
    flags = [] if option.positional else [option.label, *option.aliases]
    names = ", ".join(f"`{flag}`{{ .name }}" for flag in flags) or f"`{option.label}`"
    default = "" if option.default in (None, False, ()) else f"`{format_value(option.default)}`"
    need = "required" if option.required else default
    repeat = " May be repeated." if option.repeatable else ""
    text = " ".join(option.help.split()).replace("|", "\\|")
    return f"| {names} | {text}{repeat} | {need} |"


def methods() -> str:
    """Every method with its defaults, search ranges and presets."""
    parts = [
        "# Methods and presets",
        "Defaults, search ranges and what the presets set, as `riskmatch methods NAME` prints "
        "them. A range applies to a sweep; rows *on DATA* replace the value above them there. "
        "`--preset paper` is what the paper says, `--preset authors-code` what its released code "
        "does; [Paper and released code](paper-and-code.md) lists where the two differ. `--preset "
        "domainbed` is what [DomainBed](domainbed.md#comparable-run-by-run) does.",
    ]
    for name in sorted(built_in("method")):
        parts.append(f"## {name}\n\n```text\n{output_of(['methods', name])}```")
    return "\n\n".join(parts) + "\n"


def output_of(words: list[str]) -> str:
    """What a command prints, 84 columns wide."""
    os.environ["COLUMNS"] = "84"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        main(words)
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().strip("\n").splitlines())


class Docstrings(griffe.Extension):
    """Docstrings with the few roles and directives of reStructuredText, as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Translate the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Roles and examples as code, formulas between dollars, notes as admonitions.

    Example:
        >>> to_markdown("see :func:`~riskmatch.data.load`, :math:`x`")
        'see `load`, $x$'
    """
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)  # shown as code
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`]*)`", r"`\1`", text)
    text = re.sub(r"\.\. (warning|note)::", r"!!! \1", text)
    return re.sub(
        r"^( *)\.\. math:: *((?:.*\S.*\n?)+)",
        lambda match: f"{match[1]}$$ {' '.join(match[2].split())} $$\n",
        text,
        flags=re.MULTILINE,
    )
