"""The MCP server of the command `mcp`: the descriptions of its tools, and errors in words for the assistant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import Field, ValidationError

import pulsarscope
from pulsarscope.model.text import escape

Parameter = Mapping[str, Any]
"""Keywords of the schema of a parameter; `items` are those of the texts in a list."""


class CapturesServer(MCPServer[Any]):
    """A server that explains in words what is wrong with a call."""

    def __init__(self, instructions: str, functions: Iterable[Callable[..., Any]], parameters: Mapping[str, Parameter]) -> None:
        """Offer functions as tools; `parameters`: their parameters by name. Their ValueError is an answer for the assistant."""
        tools = [_tool(function, parameters) for function in functions]
        super().__init__("pulsarscope", instructions=instructions, version=pulsarscope.__version__, log_level="ERROR", tools=tools)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Raises ToolError, which becomes an answer marked as an error."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.__cause__.errors())
                raise ToolError(escape("; ".join(wrong))) from None
            raise (error.__cause__ if isinstance(error.__cause__, ToolError) else error) from None


def answering(function: Callable[..., Any], refused: type[Exception], length: int) -> Callable[..., Any]:
    """Return a function whose `refused` errors become answers for the assistant, cut at a length."""

    def answer(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            answered: dict[str, Any] = function(*arguments, **named)
        except refused as error:
            raise ToolError(str(error)[:length]) from error
        return answered

    answer.__name__, answer.__doc__ = function.__name__, function.__doc__
    answer.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]  # read by inspect
    return answer


def _tool(function: Callable[..., Any], parameters: Mapping[str, Parameter]) -> Tool:
    signature = inspect.signature(function)
    described = [each.replace(annotation=_described(each, parameters[name])) for name, each in signature.parameters.items()]
    function.__signature__ = signature.replace(parameters=described, return_annotation=dict[str, Any])  # type: ignore[attr-defined]
    made = Tool.from_function(function, description=" ".join((function.__doc__ or "").split()))
    for schema in (made.parameters, *made.parameters.get("properties", {}).values()):
        schema.pop("title", None)  # made from names, which stand beside them
    return made


def _described(parameter: inspect.Parameter, schema: Parameter) -> Any:
    """Return the annotation of a parameter with its schema."""
    own = {name: value for name, value in schema.items() if name not in ("description", "items")}
    annotation = parameter.annotation
    if (items := schema.get("items")) is not None:
        annotation = list[Annotated[str, Field(json_schema_extra=dict(items))]]
    return Annotated[annotation, Field(description=schema["description"], json_schema_extra=own or None)]
