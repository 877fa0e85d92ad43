"""Makes a page of docs/openapi.json: each call with its parameters, bodies and responses, and each schema."""

import json
from itertools import chain

METHODS = ["get", "put", "post", "delete"]


def page(description):
    calls = [group(tag, description["paths"]) for tag in description["tags"]]
    schemas = [schema(name, of) for name, of in sorted(description["components"]["schemas"].items())]
    return "\n".join([
        "# The HTTP API, call by call", "",
        "Made from the description that the daemon serves at `/openapi.json`, which is derived from its routes. For the purpose"
        " of the calls see [The HTTP API](api.md), for the required roles [security](security.md#roles).", "",
        *chain.from_iterable(calls), "## Schemas", "", *chain.from_iterable(schemas)])


def group(tag, paths):
    """The calls with a tag."""
    calls = [call(method, path, of[method]) for path, of in paths.items() for method in METHODS
             if method in of and tag["name"] in of[method]["tags"]]
    return [f"## {tag['name'].capitalize()}", "", tag["description"], "", *chain.from_iterable(calls)]


def call(method, path, operation):
    # A table of api.md has the same text.
    about = operation["description"].replace("](#", "](api.md#")
    lines = [f"### `{method.upper()} {path}`", "", sentence(about), ""]
    if parameters := operation["parameters"]:
        lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
        lines += [row(f"`{of['name']}`" + ("" if of["required"] else " (optional)"), of["in"], kind(of["schema"]),
                      of.get("description", "")) for of in parameters]
        lines.append("")
    if body := operation.get("requestBody"):
        optional = "" if body["required"] else " (optional)"
        lines += [f"Body{optional}: " + "; ".join(content(body["content"])), ""]
    lines += ["| status | answer |", "|---|---|"]
    lines += [row("else" if status == "default" else status, "; ".join(content(of.get("content", {}))) or "nothing")
              for status, of in operation["responses"].items()]
    return [*lines, ""]


def content(of):
    """Each schema with the media types that it is sent as."""
    by_schema = {}
    for media_type, body in of.items():
        by_schema.setdefault(kind(body["schema"]), []).append(f"`{media_type}`")
    return [f"{of_schema} as {' or '.join(media_types)}" for of_schema, media_types in by_schema.items()]


def schema(name, of):
    lines = [f"### {name}", "", *([sentence(of["description"]), ""] if "description" in of else [])]
    if fields := of.get("properties"):
        required = of.get("required", [])
        lines += ["| field | type | meaning |", "|---|---|---|"]
        lines += [row(f"`{field}`" + ("" if field in required else " (optional)"), kind(value), value.get("description", ""))
                  for field, value in fields.items()]
    elif (is_a := kind(of)) != "object":
        lines.append(f"Is {is_a}.")
    for example in of.get("examples", []):
        lines += ["", "```json", json.dumps(example, indent=2), "```"]
    return [*lines, ""]


def kind(of):
    """The type of a value, in words, with links to the schemas that it names."""
    if of is True or not of:
        return "anything"
    if "$ref" in of:
        name = of["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for word in ["oneOf", "anyOf", "allOf"]:
        if word in of:
            return (" and " if word == "allOf" else " or ").join(kind(one) for one in of[word])
    if "enum" in of:
        return ", ".join(f"`{value}`" for value in of["enum"])
    if "const" in of:
        return f"`{of['const']}`"
    types = of.get("type", "object")
    if isinstance(types, list):
        return " or ".join(kind({**of, "type": one}) for one in types)
    if types == "array":
        return f"list of {kind(of.get('items', True))}"
    if types == "object" and isinstance(of.get("additionalProperties"), dict):
        return f"map to {kind(of['additionalProperties'])}"
    bounds = [f"{word} {of[key]}" for key, word in [("minimum", "at least"), ("maximum", "at most")] if key in of]
    shape = [f"as `{of['pattern']}`"] if "pattern" in of else []
    return ", ".join([types, *bounds, *shape])


def sentence(text):
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def row(*cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
