"""The shares of the sources of --source: as info.json has them, and as the console says them."""

from collections.abc import Mapping, Sequence
from typing import Any

from beambert.console import counted
from beambert.pipelines.instances.by_source import SourceRecords
from beambert.pipelines.instances.mixture import Mixture

# A share that differs by more from the one that was asked for is named in a warning. It is one of
# very little text, or --max_epochs_per_source stands against it.
_TOLERANCE = 0.005


def source_shares(
    mixture: Mixture,
    records: Sequence[SourceRecords],
    sizes: Sequence[int],
    dupe_factor: int,
    has_label: bool,
) -> dict[str, dict[str, Any]]:
    """Returns name -> counts of the records of each source, and its shares, for info.json.

    Args:
      mixture: how the sources are mixed.
      records: counts of each source's records.
      sizes: see `Mixture.passes`; empty where they are not needed.
      dupe_factor: number of passes where no shares are asked for.
      has_label: whether the records have a label.

    Raises:
      InputError: a source has no record.
    """
    has_tokens = [record.record_tokens for record in records]
    mixture.check_sizes(has_tokens)
    passes = mixture.passes(sizes, dupe_factor)
    asked = mixture.shares(sizes) if mixture.needs_sizes else [None] * len(records)
    found = {}
    for name, record, number, share in zip(mixture.names, records, passes, asked, strict=True):
        found[name] = {
            "instances": record.instances,
            "record_tokens": record.record_tokens,
            **({"is_next": record.is_next} if has_label else {}),
            "share": round(record.record_tokens / sum(has_tokens), 6),
            **({} if share is None else {"asked_share": round(share, 6)}),
            "passes": round(number, 6),
        }
    return found


def describe_sources(counts: Mapping[str, Any]) -> list[str]:
    """Returns a line for each source of --source; none without that flag.

    Args:
      counts: counts of info.json.
    """
    return [
        f"  {name}: {each['share']:.2%} of the tokens{_asked(each)}, {each['passes']:.2f} passes "
        f"over its text, {counted(each['instances'], 'instance')}"
        for name, each in counts.get("sources", {}).items()
        if "passes" in each
    ]


def _asked(source: Mapping[str, Any]) -> str:
    return f" ({source['asked_share']:.2%} asked)" if "asked_share" in source else ""


def source_warnings(counts: Mapping[str, Any], max_epochs: float | None) -> list[str]:
    """Returns a warning for each source that has less than the share asked for, or more.

    Args:
      counts: counts of info.json.
      max_epochs: value of --max_epochs_per_source, or None. What a source with so many passes
        lacks the others have, so that only it is named.
    """
    found = []
    for name, each in counts.get("sources", {}).items():
        if "asked_share" not in each or abs(each["share"] - each["asked_share"]) <= _TOLERANCE:
            continue
        told = (
            f"{name} has {each['share']:.2%} of the tokens, not the {each['asked_share']:.2%} asked"
        )
        if max_epochs is None:
            found.append(f"{told}: the corpus is so small that single documents decide it")
        elif each["passes"] >= max_epochs:
            found.append(
                f"{told}: --max_epochs_per_source={max_epochs:g} is reached; raise it, or give "
                "more text of this source"
            )
    return found
