"""The privacy statement: what was released, at what cost, under which assumptions, for people and for machines."""

import hashlib
import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, get_args

from discreet.errors import PrivacyError
from discreet.kernels import instruction_set
from discreet.privacy.guarantee import Cost, Guarantee, renyi_budget
from discreet.privacy.noise import Noise
from discreet.privacy.rendering import deployment, markdown, page
from discreet.privacy.set_union import Threshold
from discreet.privacy.store import Entry, canonical
from discreet.validation import positive, round_up
from discreet.version import __version__

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

FORMAT = 4
CHOICE = "A private choice of items"

COVERED = {
    "joint-dp": "The public outputs listed above, everything computed from them, and for each person all "
    "that is shown to other people.",
    "dp": "The public outputs listed above and everything computed from them.",
}
NOT_COVERED = (
    "What is shown to a person themselves: their own recommendations are computed from their own history.",
    "Metrics computed without noise on private data, and choices made by looking at them (tuning by hand).",
    "Inputs declared public, if they were in fact taken from the data.",
    "Time, memory and power used by the computation, and access to the machine itself.",
    "Facts about people in general that the data teach: those would be learned without any one person too.",
)

FIELDS = {"format", "title", "issued", "sentence", "guarantee", "releases", "model", "public_inputs", "covered"}
FIELDS |= {"not_covered", "budget", "ledger", "notes", "versions", "digest"}  # and a signature, where it is signed
_MALFORMED = "not a certificate of discreet (malformed"
_FIXED = (
    "The epsilon stated is that of a list of releases fixed in advance. If what to release, or whether to go on, "
    "was decided in the light of earlier results, what is proved is "
)


def _proved(budget: Mapping[str, Any] | None, continued: bool) -> str:
    """The guarantee that is proved for releases that were chosen after seeing earlier ones."""
    if budget:
        return f"the ledger's budget, epsilon = {round_up(budget['epsilon'])} at delta = {round_up(budget['delta'])}."
    if continued:
        return "the budget of one ledger that paid for all of it."
    return "nothing, since the ledger had no budget."


def _adaptive(events: Sequence[Entry], budget: Mapping[str, Any] | None, continued: bool, stopped: bool) -> list[str]:
    """A note about adaptive choices, unless the releases are one complete plan, fixed in advance."""
    plans = {event.body.get("reservation") for event in events}
    if not (continued or stopped) and (len(events) < 2 or (len(plans) == 1 and None not in plans)):
        return []
    return [_FIXED + _proved(budget, continued)]


PACKAGES = ("discreet", "numpy", "scipy", "cryptography", "dp-accounting", "sqlalchemy")


def installed(name: str) -> str:
    """The version of a package; "unknown" if it was installed without metadata."""
    if name == "discreet":
        return __version__  # works for a source tree that was never installed, too
    try:
        return version(name) or "unknown"
    except PackageNotFoundError:
        return "unknown"


@cache
def _versions() -> dict[str, str]:
    kernels = f"{platform.machine()} {instruction_set()}"
    return {"python": platform.python_version(), **{name: installed(name) for name in PACKAGES}, "kernels": kernels}


@dataclass(frozen=True)
class Statement:
    """A certificate in three formats: `str()` is markdown, `.json()` is for machines, `.html()` for a browser.

    A model's certificate names its class and parameters and has the SHA-256 of each of its arrays and of its catalog,
    so that it fits no other model; `discreet.load` checks that. The digest covers every field; a signature (Ed25519)
    says who issued it. `Statement.parse` checks both, and computes the guarantee again from the releases.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> statement = discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings).statement()
        >>> again = discreet.Statement.parse(statement.json())  # checked: computed again from the releases
        >>> again.guarantee == statement.guarantee
        True
    """

    certificate: dict[str, Any]

    @classmethod
    def of(
        cls,
        title: str,
        guarantee: Guarantee,
        events: Sequence[Entry],
        *,
        public_inputs: Mapping[str, str],
        budget: Mapping[str, Any] | None = None,
        ledger: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        after: "Statement | None" = None,
        stopped: bool = False,
    ) -> "Statement":
        """Write the certificate of a list of ledger events.

        Args:
            title: the subject of the statement.
            guarantee: of all events together.
            events: from `Ledger.events`.
            public_inputs: the inputs assumed to be public, and why.
            budget: epsilon, delta and filter of the ledger, if it has a budget.
            ledger: from `Ledger.totals`, if the events are only part of what the ledger has paid for.
            notes: anything else that a reader must know.
            after: the statement of earlier releases, if `guarantee` covers them too.
            stopped: whether `guarantee` leaves out releases that were planned but not made.
        """
        earlier = after.certificate if after else {"releases": [], "public_inputs": {}, "notes": []}
        own = [{"seq": event.seq, "kind": event.kind, **_public(event.body)} for event in events]
        notes = [*earlier["notes"], *notes, *_adaptive(events, budget, after is not None, stopped)]
        content = {
            "format": FORMAT,
            "title": title,
            "issued": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "sentence": str(guarantee),
            "guarantee": guarantee.to_json(),
            "releases": [*earlier["releases"], *own],
            "model": None,
            "public_inputs": {**earlier["public_inputs"], **public_inputs},
            "covered": COVERED[guarantee.notion],
            "not_covered": list(NOT_COVERED),
            "budget": dict(budget) if budget else None,
            "ledger": {**ledger, "releases": len(events)} if ledger else None,  # how many of the last ones it paid for
            "notes": [*dict.fromkeys(notes)],
            "versions": _versions(),
        }
        return cls({**content, "digest": _digest(content)})

    def of_model(self, binding: Mapping[str, Any]) -> "Statement":
        """The same statement, unsigned, for one model: its "class", "params", and "sha256" of each part."""
        return self._with(model=dict(binding))

    def _with(self, **changes: Any) -> "Statement":
        content = {**self.certificate, **changes}
        content.pop("signature", None)
        return Statement({**content, "digest": _digest(content)})

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee, computed from the costs in the certificate."""
        return Guarantee.from_json(self.certificate["guarantee"])

    def includes(self, other: "Statement") -> bool:
        """Whether all releases of another statement are among those of this one."""
        own = {canonical(release) for release in self.certificate["releases"]}
        return own.issuperset(canonical(release) for release in other.certificate["releases"])

    def choice(self) -> "Statement | None":
        """The private choice of items among its releases, as a statement of its own; None if there is none."""
        releases = [release for release in self.certificate["releases"] if "threshold" in release]
        if not releases:
            return None
        cost = sum((Cost.from_json(release["cost"]) for release in releases), Cost())
        guarantee = replace(self.guarantee, cost=cost)
        terms = {"sentence": str(guarantee), "guarantee": guarantee.to_json(), "releases": releases}
        alone: dict[str, Any] = {"model": None, "public_inputs": {}, "budget": None, "ledger": None, "notes": []}
        return self._with(title=CHOICE, **terms, **alone)

    def void(self, why_not: str) -> "Statement":
        """The same releases, unsigned, marked as having no guarantee, with the reason."""
        guarantee = self.guarantee.void(why_not) if self.guarantee.holds else self.guarantee
        notes = [*dict.fromkeys([*self.certificate["notes"], f"{why_not[0].upper()}{why_not[1:]}."])]
        return self._with(sentence=str(guarantee), guarantee=guarantee.to_json(), notes=notes)

    def json(self, indent: int | None = 2) -> str:
        """The certificate."""
        return json.dumps(self.certificate, indent=indent, allow_nan=False)

    def __str__(self) -> str:
        return markdown(self.certificate)

    def html(self) -> str:
        """A self-contained page, with a small chart of where the budget went."""
        return page(self.certificate)

    def registry(
        self,
        *,
        author: str,
        name: str,
        curator: str,
        curator_type: str,
        region: str,
        intended_use: str,
        description: str,
        published: str,
        data_domain: str,
        tuning: str,
        justification: str,
        sector: str = "Technology",
        url: str = "",
        continual: bool = False,
    ) -> str:
        """Write an entry for the public registry of deployments, opendp/deployments-registry-data, as JSON.

        The certificate fills in the guarantee, the mechanisms and what is assumed. You supply what the library cannot
        know. The layout is that of the registry's entries of September 2026.

        Args:
            author: Who writes the entry.
            name: The name of the data product.
            curator: Who publishes it.
            curator_type: The kind of organization that the curator is, such as "Industry" or "Nonprofit".
            region: Which region the data describe, such as "Global".
            intended_use: What the data product is for.
            description: What it is.
            published: The date when it was first published, YYYY-MM-DD.
            data_domain: Whose data it was learned from, collected where and when.
            tuning: How data were prepared and settings chosen, and whether the budget paid for that.
            justification: Why you chose this epsilon, unit and model.
            sector: The industry that the data product belongs to.
            url: Where to read more.
            continual: Whether it will be published again, from new data.

        Raises:
            PrivacyError: The guarantee does not hold, a text is empty, or `published` is not a date.
        """
        given = {"author": author, "name": name, "curator": curator, "curator_type": curator_type, "region": region}
        given |= {"intended_use": intended_use, "description": description, "published": published, "sector": sector}
        given |= {"data_domain": data_domain, "tuning": tuning, "justification": justification}
        missing = [key for key, text in given.items() if not text.strip()]
        if missing:
            raise PrivacyError(
                f"registry: {', '.join(missing)} must not be empty; only you can know what belongs there"
            )
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", published):
            raise PrivacyError(f"published: a date such as 2026-01-31 is needed, not {published!r}")
        if not self.guarantee.holds:
            raise PrivacyError(f"registry: there is no guarantee to publish: {self.guarantee.why_not}")
        return json.dumps(deployment(self.certificate, given, url, continual), indent=2, ensure_ascii=False) + "\n"

    _repr_markdown_ = __str__
    _repr_html_ = html

    # -- checking and signing

    @property
    def digest(self) -> str:
        """The SHA-256 of every field but itself and the signature."""
        return _digest(self.certificate)

    @classmethod
    def parse(cls, text: str | bytes) -> "Statement":
        """Read a certificate; refuses one that was changed, that contradicts itself, or whose signature is invalid.

        A valid signature is by the key in the certificate. Only you can know whose key that is: see `verify`.
        """
        try:
            statement = cls(json.loads(text, object_pairs_hook=distinct))
            statement._check()
            str(statement), statement.html()  # every field that people read must be there
        except PrivacyError:
            raise
        except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError):
            raise PrivacyError(f"certificate: {_MALFORMED}, broken or incomplete)") from None
        return statement

    def _check(self) -> None:
        """Raise unless the certificate agrees with itself."""
        c = self.certificate
        reads = f"this version of discreet reads {FORMAT}; ask for one that this version has issued"
        _require(c["format"] == FORMAT, f"its format is {c['format']!r}, and {reads}")
        guarantee = self.guarantee
        _require(set(c) - {"signature"} == FIELDS, f"{_MALFORMED}: fields are missing, or there are others)")
        _require(c["digest"] == self.digest, "its digest does not match, so it was changed after it was issued")
        _require(_follows(c["guarantee"], guarantee), "its guarantee has values that do not follow from its cost")
        released = sum((_recomputed(release) for release in c["releases"]), Cost())
        _require(released.within(guarantee.cost), "its releases cost more than its guarantee admits")
        secure = all(release["secure"] is True and bool(release["source"]) for release in c["releases"])
        _require(secure or not guarantee.holds, "its noise came from an insecure source, but it claims to hold")
        _require(str(guarantee) == c["sentence"], "its sentence is not the one that its guarantee gives")
        covered = (c["covered"], c["not_covered"]) == (COVERED[guarantee.notion], list(NOT_COVERED))
        _require(covered, "its lists of what is covered and not covered do not match its guarantee")
        _check_budget(c["budget"], guarantee)
        quoted = {note.removeprefix(_FIXED) for note in c["notes"] if note.startswith(_FIXED)}
        proved = {_proved(c["budget"], continued) for continued in (False, True)}
        _require(quoted <= proved, "its notes quote another budget than its own")
        _check_ledger(c["ledger"], guarantee, c["releases"])
        _check_binding(c["model"], guarantee)
        if "signature" in c:
            self._check_signature(c["signature"])

    def _check_signature(self, signature: Mapping[str, str]) -> None:
        """Raise unless the signature is by the key that it names."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            public, value = (bytes.fromhex(signature[name]) for name in ("public_key", "value"))
            Ed25519PublicKey.from_public_bytes(public).verify(value, self._signed())
            valid = signature == {"algorithm": "Ed25519", "public_key": public.hex(), "value": value.hex()}
        except (InvalidSignature, ValueError, TypeError, LookupError):
            valid = False
        _require(valid, "its signature is not one of the key that it names for this certificate")

    def sign(self, private_key: "Ed25519PrivateKey") -> "Statement":
        """The same statement with the issuer's signature, made with an `Ed25519PrivateKey` from `cryptography`."""
        public = private_key.public_key().public_bytes_raw().hex()
        signature = {"algorithm": "Ed25519", "public_key": public, "value": private_key.sign(self._signed()).hex()}
        return Statement({**self.certificate, "signature": signature})

    def verify(self, public_key: "Ed25519PublicKey") -> None:
        """Raise unless the statement has a valid signature by this `Ed25519PublicKey`."""
        _require("signature" in self.certificate, "it is not signed")
        signature = self.certificate["signature"]
        self._check_signature(signature)
        same = signature["public_key"] == public_key.public_bytes_raw().hex()
        _require(same, "the signature is one of another key; do not trust it")

    def _signed(self) -> bytes:
        return f"discreet certificate {self.digest}".encode()


def _public(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a ledger entry that others may see: not its time, since running times depend on the data.

    A private choice of items keeps the random name of its reservation, by which it is told from any other.
    """
    hidden = ("time",) if "threshold" in body else ("time", "reservation")
    return {key: value for key, value in body.items() if key not in hidden}


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; raises for repeated names, since readers may differ in which value they take."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a name is given twice")
    return dict(pairs)


def _require(holds: bool, what_not: str) -> None:
    if not holds:
        raise PrivacyError(f"certificate: {what_not}")


def _follows(stated: Mapping[str, Any], guarantee: Guarantee) -> bool:
    """Whether the JSON of a guarantee has only values that follow from its cost; `from_json` has compared epsilon."""
    computed = guarantee.to_json()
    return canonical({**stated, "epsilon": computed["epsilon"]}) == canonical(computed)


def _check_budget(budget: Mapping[str, Any] | None, guarantee: Guarantee) -> None:
    """Raise unless the budget covers the total, by its epsilon or by its filter, which may be the tighter bound."""
    if budget is None:
        return
    named = set(budget) - {"threshold_delta"} == {"epsilon", "delta", "filter"}
    _require(named, "its budget is not an epsilon, a delta and a filter")
    epsilon, delta, cost = positive("epsilon", budget["epsilon"]), budget["delta"], guarantee.cost
    kept = budget.get("threshold_delta", 0.0)
    covered = cost.epsilon(delta) <= epsilon * (1 + 1e-9)
    if not covered and budget["filter"] == "renyi" and 0 <= kept < delta:
        order, bound = renyi_budget(epsilon, delta - kept)
        covered = cost.exposure <= kept and cost.noise.renyi(order) <= bound * (1 + 1e-9)
    _require(covered, "its budget is less than what was spent")


def _check_ledger(ledger: Mapping[str, Any] | None, guarantee: Guarantee, releases: Sequence[Any]) -> None:
    """Raise unless a ledger's total covers the releases that it has paid for, in the same unit and adjacency."""
    if ledger is None:
        return
    count, spent = ledger["releases"], Guarantee.from_json(ledger["spent"])
    sound = set(ledger) == {"spent", "budget", "releases"} and type(count) is int and 0 <= count <= len(releases)
    _require(sound, "its ledger is not what was spent, a budget and a number of releases")
    _require(_follows(ledger["spent"], spent), "its ledger has values that do not follow from its cost")
    same = (spent.unit, spent.adjacency) == (guarantee.unit, guarantee.adjacency)
    _require(same, "its ledger counts in another unit or adjacency than its guarantee")
    paid = sum((Cost.from_json(release["cost"]) for release in releases[len(releases) - count :]), Cost())
    _require(paid.within(spent.cost), "its ledger has spent less than its releases cost")
    _check_budget(ledger["budget"], spent)


def _check_binding(binding: Mapping[str, Any] | None, guarantee: Guarantee) -> None:
    """Raise unless it names a model, and its parameters agree with a guarantee that holds."""
    if binding is None:
        return
    named = {key: type(value) for key, value in binding.items()} == {"class": str, "params": dict, "sha256": dict}
    named = named and all(re.fullmatch(r"[0-9a-f]{64}", one) for one in binding["sha256"].values())
    _require(named, "its model is not a class, parameters, and a SHA-256 for each part")
    for name in ("unit", "adjacency", "delta"):
        stated = getattr(guarantee, name)
        given = binding["params"].get(name, stated)
        same = given == stated or not guarantee.holds
        _require(same, f"its model has {name} = {given!r}, but its guarantee has {stated!r}")


def noise_from_json(data: Mapping[str, Any]) -> Noise:
    """The inverse of {"kind": noise.kind, **its fields}."""
    kinds: dict[str, Any] = {cls.kind: cls for cls in get_args(Noise)}
    if data.get("kind") not in kinds:
        raise PrivacyError(f"noise of unknown kind {data.get('kind')!r}")
    noise: Noise = kinds[data["kind"]](**{key: value for key, value in data.items() if key != "kind"})
    return noise


def _recomputed(release: Mapping[str, Any]) -> Cost:
    """The cost of a release by its own noise and sensitivity; raises if it states another."""
    stated = Cost.from_json(release["cost"])
    known = release["kind"] in ("release", "charge") and stated.sound
    _require(known, f"{release['label']!r} is neither a release nor a charge")
    listed = release["kind"] == "release" or "noise" in release or "sensitivity" in release
    each = noise_from_json(release["noise"]).cost(release["sensitivity"]) if listed else stated
    if "threshold" in release:
        each += Threshold(**release["threshold"]).cost
    exact = release["kind"] == "release" and not stated.samples
    right = each == stated if exact else stated.pays_for(each)
    _require(right, f"{release['label']!r} does not cost what its noise and sensitivity give")
    return stated


def _digest(content: Mapping[str, Any]) -> str:
    signed = {key: value for key, value in content.items() if key not in ("digest", "signature")}
    return hashlib.sha256(canonical(signed).encode()).hexdigest()
