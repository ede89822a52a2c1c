"""The OpenAPI description of the server: what it takes of this very model, and every answer that it may give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discreet.version import __version__
from discreet.web import api

if TYPE_CHECKING:
    from discreet.web.api import Api

ITEM = {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "The id of an item; its text will do."}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "One sentence: what was wrong."}},
    "additionalProperties": False,
}
REASONS = {
    400: "The body is not JSON, or the request is not proper HTTP.",
    408: "The request took too long to arrive.",
    413: "The body is too large.",
    415: "The body is not declared to be JSON.",
    422: "A field is wrong; the reason says which.",
    421: "The Host is none of the names that this server answers to.",
    431: "The headers are too large.",
    503: "Too many requests are waiting; try again.",
}
ANYWHERE = (400, 408, 421, 431, 503)  # whatever is asked for


def described(server: Api) -> dict[str, Any]:
    """The description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "discreet",
            "version": __version__,
            "description": f"Recommendations of a {type(server.model).__name__}. {server.model.guarantee_} The "
            "server keeps nothing of what it is asked, and logs no ratings. Whoever would rather send none can compute "
            "the same in the browser: the page at / does.",
        },
        "paths": {
            "/v1/recommend": {"post": _recommend(server)},
            "/v1/items": {"get": _items()},
            "/v1/statement": {"get": _statement()},
        },
        "components": {"schemas": {"Error": ERROR, "Recommendations": _recommendations()}},
    }


def _answers(schema: dict[str, Any], *errors: int) -> dict[str, Any]:
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    good = {"description": "The answer.", "content": {"application/json": {"schema": schema}}}
    possible = sorted({*ANYWHERE, *errors})
    return {"200": good, **{str(status): {"description": REASONS[status], "content": wrong} for status in possible}}


def _recommend(server: Api) -> dict[str, Any]:
    low, high = server.model.value_range_
    items = {"type": "array", "items": ITEM, "maxItems": api.HISTORY_MOST}
    ratings = {
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": low, "maximum": high},
        "maxProperties": api.HISTORY_MOST,
    }
    history = {"anyOf": [ratings, items], "description": "Ratings by item, or a list of liked items."}
    histories = {"type": "array", "items": history, "minItems": 1, "maxItems": server.limits.histories}
    options = {
        "n": {
            "type": "integer",
            "minimum": 1,
            "maximum": api.N_MOST,
            "default": api.N_DEFAULT,
            "description": f"How many items. One answer has at most {server.limits.answer:,} recommendations: the "
            "number of histories times n.",
        },
        "exclude_seen": {"type": "boolean", "default": True, "description": "Leave out what is in the history."},
        "allow": {**items, "description": "Recommend only these."},
        "deny": {**items, "description": "Never recommend these."},
        "on_unknown": {"enum": ["raise", "ignore"], "default": "raise", "description": "About items nobody knows."},
    }

    def body(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        properties = {name: schema, **options}
        return {"type": "object", "required": [name], "properties": properties, "additionalProperties": False}

    example = {"history": {str(item): high for item in server.ids[:2]}, "n": 5}
    one = {"$ref": "#/components/schemas/Recommendations"}
    many = {
        "type": "object",
        "required": ["results"],
        "properties": {"results": {"type": "array", "items": one}},
        "additionalProperties": False,
    }
    return {
        "operationId": "recommend",
        "summary": "The best items for one history, or for each of several.",
        "requestBody": {
            "required": True,
            "description": f"At most {server.limits.body:,} bytes.",
            "content": {
                "application/json": {
                    "schema": {"oneOf": [body("history", history), body("histories", histories)]},
                    "example": example,
                }
            },
        },
        "responses": _answers({"oneOf": [one, many]}, 413, 415, 422),
    }


def _recommendations() -> dict[str, Any]:
    row = {
        "type": "object",
        "required": ["rank", "item", "title", "score"],
        "properties": {
            "rank": {"type": "integer", "minimum": 1},
            "item": ITEM,
            "title": {"type": ["string", "null"]},
            "score": {"type": "number"},
        },
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": ["recommendations", "note"],
        "properties": {"recommendations": {"type": "array", "items": row}, "note": {"type": "string"}},
        "additionalProperties": False,
    }


def _items() -> dict[str, Any]:
    def parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, "in": "query", "required": False, "schema": schema}

    row = {
        "type": "object",
        "required": ["item", "title"],
        "properties": {"item": ITEM, "title": {"type": ["string", "null"]}},
        "additionalProperties": False,
    }
    found = {
        "type": "object",
        "required": ["items", "total"],
        "properties": {"items": {"type": "array", "items": row}, "total": {"type": "integer", "minimum": 0}},
        "additionalProperties": False,
    }
    limit = {"type": "integer", "minimum": 1, "maximum": api.PAGE_MOST, "default": api.PAGE_DEFAULT}
    return {
        "operationId": "items",
        "summary": "Items of the catalogue, by what their titles have in them.",
        "parameters": [
            parameter("search", {"type": "string", "maxLength": api.SEARCH_LONGEST}),
            parameter("offset", {"type": "integer", "minimum": 0, "maximum": 1 << 40, "default": 0}),
            parameter("limit", limit),
        ],
        "responses": _answers(found, 422),
    }


def _statement() -> dict[str, Any]:
    return {
        "operationId": "statement",
        "summary": "The privacy certificate of the model: what was promised to the people it learned from.",
        "responses": _answers({"type": "object", "required": ["sentence", "guarantee", "digest"]}),
    }
