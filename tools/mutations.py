"""Small changes of meaning in Python source, one expression at a time."""

import ast
import copy
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Pow: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitAnd,
}  # fmt: skip
SWAPPED = {"max": "min", "maximum": "minimum", "ceil": "floor", "any": "all"}
SWAPPED |= {after: before for before, after in SWAPPED.items()}
ALSO_IN_WORDS = {"schedule_revealed"}  # returns words, and decides by whether there are any


@dataclass(frozen=True)
class Mutant:
    """One change of one expression, and where it stands."""

    room: str
    file: str  # below the package
    line: int
    text: str  # of that line
    change: str
    lines: frozenset[int]  # whose tests judge it
    names: frozenset[str]  # set by the statement where no function holds it: tests of lines that use these judge it
    site: tuple[ast.Module, ast.AST, str, int | None, ast.AST] = field(compare=False, repr=False)
    nth: int = 0  # of the same change in such a line

    @property
    def key(self) -> str:
        """What stays when other lines change."""
        return f"{self.file}|{self.text}|{self.change}|{self.nth}"

    def applied(self) -> ast.Module:
        """Change the tree that the mutant was found in, for good, and return it."""
        tree, parent, name, index, after = self.site
        if index is None:
            setattr(parent, name, after)
        else:
            getattr(parent, name)[index] = after
        return ast.fix_missing_locations(tree)


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what an expression may be replaced by."""
    match node:
        case ast.Compare(ops=ops):
            for index, op in enumerate(ops):
                for other in COMPARED[type(op)]:
                    yield _with(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in COMPUTED and not _is_text(node):
            yield _with(node, op=COMPUTED[type(node.op)]())
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield _with(node, value=not value)
        case ast.Constant(value=int(value)):
            yield _with(node, value=value + 1)
        case ast.Constant(value=float(value)):
            yield _with(node, value=float(f"{1.1 * value:.6g}") if value else 1.0)
        case ast.Call(func=ast.Name(id="abs"), args=[only]):
            yield only
        case ast.Call(func=ast.Name(id=name) as called) if name in SWAPPED:
            yield _with(node, func=_with(called, id=SWAPPED[name]))
        case ast.Call(func=ast.Attribute(attr=name) as called) if name in SWAPPED:
            yield _with(node, func=_with(called, attr=SWAPPED[name]))


def _with(node: Any, **fields: Any) -> Any:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", 0), str) for each in ast.walk(node))


def mutants_of(source: str, file: str, room: str) -> list[Mutant]:
    """Return all mutants of a source text, but for those of annotations, decorators, errors and words."""
    tree, texts = ast.parse(source), [line.strip() for line in source.splitlines()]
    seen, found = defaultdict[str, int](int), list[Mutant]()

    def visit(parent: ast.AST, lines: frozenset[int], names: frozenset[str], of_class: frozenset[int]) -> None:
        for name, value in ast.iter_fields(parent):
            for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if (
                    not isinstance(node, ast.AST)
                    or name in ("annotation", "returns", "decorator_list")
                    or _in_words(node)
                ):
                    continue
                inside, set_here, around = lines, names, of_class
                if isinstance(node, ast.ClassDef):
                    around = frozenset(range(node.lineno, node.end_lineno + 1))
                if isinstance(node, ast.FunctionDef | ast.Lambda):
                    body = node.body if isinstance(node.body, list) else [node.body]
                    inside = frozenset(range(body[0].lineno, node.end_lineno + 1))
                elif isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef):
                    if not lines:
                        set_here = frozenset(x.id for x in ast.walk(node) if _is_set(x))
                    else:
                        own = [node.test] if isinstance(node, ast.If | ast.While) else [node]
                        last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
                        inside = frozenset(range(own[0].lineno, last + 1))
                for after in changes(node):
                    change = f"{ast.unparse(node)} -> {ast.unparse(after)}"
                    text = texts[node.lineno - 1]
                    nth = seen[text + change]
                    seen[text + change] += 1
                    site = (tree, parent, name, index, after)
                    found.append(Mutant(room, file, node.lineno, text, change, inside or around, set_here, site, nth))
                visit(node, inside, set_here, around)

    visit(tree, *3 * (frozenset(),))
    return found


def _is_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _in_words(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(returns=ast.Name(id="str"), name=name):
            return name not in ALSO_IN_WORDS
        case ast.FunctionDef(name="__repr__") | ast.Raise() | ast.JoinedStr():
            return True
        case ast.keyword(arg="strict" | "frozen" | "kw_only"):
            return True
    return False
