"""Mutations of one function: what may be broken in it, and how the broken code is put in place.

A mutation changes one node of the syntax tree: a comparison, a condition, a constant, an error, a
statement that is left out. The module is compiled with it, and the function that runs gets the
code object of the compiled one. So every name that was imported elsewhere has the mutant too, and
no file changes. Nothing takes a mutation back: it is made in a process that ends after its tests.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec

from txnsim.errors import ErrorCode

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_OTHER_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""An order is moved by one at its limit, and turned round; what knows no order is negated."""
_OTHER_FUNCTIONS: Final = {"any": "all", "all": "any", "min": "max", "max": "min"}
_LOG_METHODS: Final = frozenset({"debug", "info", "warning", "error", "exception"})
_OBSERVING: Final = re.compile(
    r"tracer|\btrace\b|\.trace\.|_total\b|^\(?yield |'[^']*' if .* else '[^']*'|\bpace\b"
    r"|^rule_id\b|^trace_rule\b|\.(answers|expect|have_done)\(",
    re.MULTILINE,
)
"""In the text of what only the trace, metrics, explanations or the loop's pace show."""
_STATEMENT_LISTS: Final = ("body", "orelse", "finalbody")
_TEXT_MAX: Final = 160


class NotMutableError(Exception):
    """The mutant can't be compiled, or the function that it would replace does not exist."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One change of one function."""

    module_name: str
    function_name: str
    """Qualified name within the module, without ``<locals>``."""
    kind: str
    line: int
    line_last: int
    statement_line: int
    """First line of the statement that holds the changed node."""
    before: str
    after: str
    occurrence: int
    """1 for the first mutation of the function that reads so, 2 for the second."""
    only_observes: bool
    """Whether it changes what is traced, counted, announced or explained, and no answer."""
    is_switched: bool
    """Whether a switch of releases decides if it counts: then another release may have to show it
    (tests/broker/older_releases).
    """
    holder: Any
    """The node or list of the syntax tree that is changed."""
    key: str | int
    replacement: Any

    @property
    def function(self) -> str:
        """The function's name as rules have it: ``module:qualified name``."""
        return f"{self.module_name}:{self.function_name}"

    @property
    def id(self) -> str:
        """An id that stays the same while the function's text stays the same."""
        suffix = f" #{self.occurrence}" if self.occurrence > 1 else ""
        return f"{self.function} | {self.before} -> {self.after}{suffix}"

    @property
    def lines(self) -> range:
        return range(min(self.line, self.statement_line), self.line_last + 1)

    def __str__(self) -> str:
        return f"{self.function} line {self.line}: {self.before}  ->  {self.after}"


class MutableModule:
    """A module of the product with the syntax tree that its mutations change."""

    def __init__(self, module_name: str) -> None:
        self.module: Final[ModuleType] = importlib.import_module(module_name)
        assert self.module.__file__ is not None
        self.path: Final = Path(self.module.__file__)
        self._tree: Final = ast.parse(self.path.read_text("utf-8"))
        self._nodes: Final = dict(_functions(self._tree.body, ""))

    @property
    def function_names(self) -> tuple[str, ...]:
        return tuple(self._nodes)

    def function_node(self, function_name: str) -> FunctionNode:
        """Return the syntax tree of a function or method.

        Raises:
            NotMutableError: The module has no such function.
        """
        if function_name not in self._nodes:
            raise NotMutableError(f"{self.module.__name__} has no function {function_name}")
        return self._nodes[function_name]

    def mutations(self, function_name: str) -> list[Mutation]:
        """Return all mutations of a function, in the order of its text."""
        function = self.function_node(function_name)
        surroundings = _surroundings(function)
        switch_names = _switch_names(function)
        counts: Counter[tuple[str, str]] = Counter()
        mutations = []
        for kind, node, holder, key, replacement in _changes(function):
            statement, parent = surroundings.get(id(node), (node, node))
            shown_node = parent if isinstance(node, (ast.Constant, ast.Attribute)) else node
            if not isinstance(shown_node, (ast.expr, ast.stmt, ast.keyword)):
                shown_node = statement
            original = _get(holder, key)
            if kind == "operand":
                text_before, text_after = _text(original), _text(replacement)
            else:
                text_before = _text(shown_node)
                _put(holder, key, replacement)
                text_after = "(left out)" if kind == "statement" else _text(shown_node)
                _put(holder, key, original)
            counts[text_before, text_after] += 1
            mutations.append(
                Mutation(
                    module_name=self.module.__name__,
                    function_name=function_name,
                    kind=kind,
                    line=shown_node.lineno,
                    line_last=_line_last(node, shown_node),
                    statement_line=statement.lineno,
                    before=text_before,
                    after=text_after,
                    occurrence=counts[text_before, text_after],
                    only_observes=_OBSERVING.search(f"{text_before}\n{_text(statement)}")
                    is not None,
                    is_switched=_is_switched(node, parent, statement, switch_names),
                    holder=holder,
                    key=key,
                    replacement=replacement,
                )
            )
        return sorted(mutations, key=lambda mutation: (mutation.line, mutation.id))

    def install(self, mutation: Mutation) -> None:
        """Break the function in this process, for good.

        Raises:
            NotMutableError: The mutant can't be compiled or put in the function's place.
        """
        running = running_functions(self.module, mutation.function_name)
        _put(mutation.holder, mutation.key, mutation.replacement)
        try:
            compiled_code = compile(ast.fix_missing_locations(self._tree), str(self.path), "exec")
        except (SyntaxError, ValueError) as error:
            raise NotMutableError(str(error)) from error
        node = self._nodes[mutation.function_name]
        first_line = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
        codes = [
            code
            for code in _codes(compiled_code)
            if code.co_qualname == mutation.function_name and code.co_firstlineno == first_line
        ]
        target_functions = [
            function for function in running if function.__code__.co_firstlineno == first_line
        ]
        if not codes or not target_functions:
            raise NotMutableError(f"{mutation.function} is not there when the program runs")
        for function in target_functions:
            try:
                function.__code__ = codes[0]
            except ValueError as error:
                raise NotMutableError(str(error)) from error


def running_functions(module: ModuleType, function_name: str) -> list[FunctionType]:
    """Return the functions of that qualified name, without what decorators put around them."""
    member: object = module
    for attribute_name in function_name.split("."):
        member = vars(member).get(attribute_name)
        if member is None:
            return []
    if isinstance(member, property):
        members: list[object] = [member.fget, member.fset]
    else:
        members = [getattr(member, "__func__", None) or getattr(member, "func", member)]
    functions = [inspect.unwrap(member) for member in members if callable(member)]
    for function in members:
        if hasattr(function, "cache_clear"):
            function.cache_clear()
    return [function for function in functions if isinstance(function, FunctionType)]


def deciding_lines(function: FunctionNode, rule_id: str) -> set[int]:
    """Return the lines that decide what a function explains by a rule: the statement with the id
    of the rule, and the condition right above it. Empty if the id does not stand in the function.
    """
    lines: set[int] = set()
    for node in ast.walk(function):
        condition_nodes: list[ast.AST] = [node.test] if isinstance(node, ast.If) else []
        for statement in _direct_statements(node):
            if not _has_text(statement, rule_id):
                continue
            for part in (statement, *condition_nodes):
                lines |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))  # type: ignore[attr-defined]
    return lines


def _direct_statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Statements in the bodies of a node that have no body themselves."""
    for name in _STATEMENT_LISTS:
        statements = getattr(node, name, None)
        for statement in statements if isinstance(statements, list) else ():
            if isinstance(statement, _SIMPLE_STATEMENTS):
                yield statement


_SIMPLE_STATEMENTS: Final = (
    ast.Return,
    ast.Assign,
    ast.AnnAssign,
    ast.AugAssign,
    ast.Expr,
    ast.Raise,
    ast.Delete,
)


def _has_text(node: ast.AST, text: str) -> bool:
    return any(isinstance(part, ast.Constant) and part.value == text for part in ast.walk(node))


def _functions(statements: list[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for statement in statements:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from _functions(statement.body, f"{prefix}{statement.name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _surroundings(function: FunctionNode) -> dict[int, tuple[Any, Any]]:
    """The innermost statement and the parent of each node below a function, by its identity."""
    surroundings: dict[int, tuple[Any, Any]] = {}

    def walk(node: ast.AST, statement: Any) -> None:
        for child in ast.iter_child_nodes(node):
            innermost = child if isinstance(child, ast.stmt) else statement
            surroundings[id(child)] = (innermost, node)
            walk(child, innermost)

    walk(function, function)
    return surroundings


def _mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one that a mutation may change: no assertions, texts, types or log lines.
    ``assert_never`` is an assertion, too, and so is the ``strict`` of a ``zip``: nothing depends on
    them as long as they hold.
    """
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not isinstance(
            node, ast.Call
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Assert, ast.JoinedStr)):
                continue
            if isinstance(child, ast.Expr) and _says_only(child.value):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            yield child
            yield from _mutable_nodes(child)


def _says_only(expression: ast.expr) -> bool:
    """Whether an expression is a docstring, a line of the log, or ``assert_never``."""
    if isinstance(expression, ast.Constant):
        return True
    if isinstance(expression, ast.Call) and ast.unparse(expression.func) == "assert_never":
        return True
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Attribute)
        and expression.func.attr in _LOG_METHODS
        and ast.unparse(expression.func.value).rpartition(".")[2] in ("log", "_log", "logger")
    )


Change = tuple[str, Any, Any, str | int, Any]
"""Kind, node that is shown, what is changed, at which key, and what comes there."""


def _changes(function: FunctionNode) -> Iterator[Change]:
    for node in (function, *_mutable_nodes(function)):
        yield from _changes_of_expression(node)
        yield from _left_out(node)


def _changes_of_expression(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=operators):
            for index, operator in enumerate(operators):
                for other_comparison in _OTHER_COMPARISONS[type(operator)]:
                    yield "comparison", node, operators, index, other_comparison()
        case ast.BoolOp(op=operator, values=values):
            other_operator = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield "boolean", node, node, "op", other_operator
            for index in range(len(values)):
                is_neutral = ast.Constant(isinstance(operator, ast.And))
                yield "operand", values[index], values, index, is_neutral
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", node, node, "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, (ast.Compare, ast.UnaryOp)):
                yield "condition", node, node, "test", ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=conditions):
            for index, condition in enumerate(conditions):
                if not isinstance(condition, (ast.Compare, ast.UnaryOp)):
                    negated = ast.UnaryOp(ast.Not(), condition)
                    yield "condition", node, conditions, index, negated
        case ast.Constant(value=bool() as value):
            yield "constant", node, node, "value", not value
        case ast.Constant(value=int() as value):
            yield "constant", node, node, "value", value + 1
        case ast.Attribute(value=ast.Name(id="ErrorCode"), attr=name):
            if name in ErrorCode.__members__:
                other_error = "unknown_server_error"
                if name == other_error:
                    other_error = "invalid_request"
                yield "error", node, node, "attr", other_error
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator, left=left, right=right):
            if not any(isinstance(side_node, _SEQUENCES) for side_node in (left, right)):
                other_sign = ast.Sub() if isinstance(operator, ast.Add) else ast.Add()
                yield "arithmetic", node, node, "op", other_sign
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_FUNCTIONS:
            yield "function", node, node.func, "id", _OTHER_FUNCTIONS[name]


_SEQUENCES: Final = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)


def _left_out(node: ast.AST) -> Iterator[Change]:
    """Statements of a node that can be left out: what they do, not what they name, is missed."""
    for name in _STATEMENT_LISTS:
        statements = getattr(node, name, None)
        if not isinstance(statements, list):
            continue
        for index, statement in enumerate(statements):
            if _has_effect(statement) or (
                isinstance(statement, (ast.Return, ast.Continue, ast.Break))
                and isinstance(node, ast.If)
            ):
                pass_action = ast.copy_location(ast.Pass(), statement)
                yield "statement", statement, statements, index, pass_action


def _has_effect(statement: ast.AST) -> bool:
    match statement:
        case ast.Expr(value=expression):
            return not _says_only(expression) and not _is_yield(expression)
        case ast.Assign(targets=targets):
            return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets)
        case ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case _:
            return False


def _is_yield(expression: ast.expr) -> bool:
    """Whether leaving it out may make another kind of function of this one."""
    return isinstance(expression, (ast.Yield, ast.YieldFrom))


def _get(holder: Any, key: str | int) -> Any:
    return getattr(holder, key) if isinstance(key, str) else holder[key]


def _put(holder: Any, key: str | int, value: Any) -> None:
    if isinstance(key, str):
        setattr(holder, key, value)
    else:
        holder[key] = value


def _is_switched(
    node: ast.AST, parent: ast.AST, statement: ast.AST, switch_names: frozenset[str]
) -> bool:
    """Whether a condition of which a switch of releases is an operand has the node."""
    condition_nodes = [node, parent]
    if isinstance(statement, (ast.If, ast.While)) and not isinstance(node, ast.stmt):
        condition_nodes.append(statement.test)
    operand_nodes: list[ast.AST] = []
    for condition in condition_nodes:
        if isinstance(condition, (ast.If, ast.IfExp)):
            condition = condition.test
        operand_nodes += condition.values if isinstance(condition, ast.BoolOp) else [condition]
    return any(
        isinstance(operand, ast.expr) and _is_switch(operand, switch_names)
        for operand in operand_nodes
    )


def _switch_names(function: FunctionNode) -> frozenset[str]:
    """The local variables that are a switch, or are computed with one."""
    return frozenset(
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, (ast.BoolOp, ast.UnaryOp, ast.Attribute, ast.Call))
        and any(
            _is_switch(operand, frozenset())
            for operand in getattr(node.value, "values", [node.value])
        )
    )


def _is_switch(expression: ast.expr, switch_names: frozenset[str]) -> bool:
    text = ast.unparse(expression)
    return _SWITCH.search(text) is not None or text.removeprefix("not ") in switch_names


_SWITCH: Final = re.compile(r"^(not )?[\w.]*rules\.\w+$|\((release_|self\.)?rules\)$")


def _line_last(node: ast.AST, shown_node: ast.expr | ast.stmt | ast.keyword) -> int:
    """The last line of what a mutation changes; of a statement with a body, of its condition."""
    test = getattr(node, "test", None)
    last_of = test if isinstance(node, ast.stmt) and test is not None else shown_node
    return last_of.end_lineno or last_of.lineno


def _text(node: ast.AST) -> str:
    """The text of a node in one line; of a statement with a body, its head."""
    head_text = ast.unparse(ast.fix_missing_locations(node)).partition("\n")[0]
    return head_text if len(head_text) <= _TEXT_MAX else f"{head_text[:_TEXT_MAX]}…"
