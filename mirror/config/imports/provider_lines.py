"""Declare the config providers that imported values refer to. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirror.config.imports.connectors import Setting
from mirror.config.imports.items import Item
from mirror.config.imports.secrets import USUAL, providers_in
from mirror.config.providers import PROVIDERS, is_provider_key


def provider_items(items: Sequence[Item], workers: Mapping[str, Sequence[Setting]]) -> Iterator[Item]:
    """Yield the lines that declare the config providers which values refer to.

    A worker may have declared them; what it does not tell is taken as those providers are usually called.
    """
    told = {each.key: each for settings in workers.values() for each in settings if is_provider_key(each.key)}
    users: dict[str, str] = {}
    for item in items:
        for name in providers_in(item.value) if item.is_line else ():
            users.setdefault(name, item.where)
    declared = {name: told.get(f"{PROVIDERS}.{name}.class") for name in users}
    classes = {name: each.value if each is not None else USUAL.get(name, "") for name, each in declared.items()}
    known = [name for name in users if classes[name] in USUAL.values()]
    if known:
        yield Item(found=PROVIDERS, where=users[known[0]], key=PROVIDERS, value=", ".join(known))
    for name in known:
        key = f"{PROVIDERS}.{name}."
        yield Item(found=f"${{{name}:...}}", where=users[name], key=f"{key}class", value=classes[name])
        for each in told.values():
            if each.key.startswith(f"{key}param."):
                yield Item(found=each.key, where=each.where, key=each.key, value=each.value)
    for name in (name for name in users if name not in known):
        yield Item(found=f"${{{name}:...}}", where=users[name]).by_hand(
            "no config provider of Kafka has this name; write the reference as one of file, directory or env"
        )
    for each in told.values():
        if not each.key.startswith(tuple(f"{PROVIDERS}.{name}." for name in known)) and each.key != PROVIDERS:
            yield Item(found=each.key, where=each.where).left_out("no value refers to it")
