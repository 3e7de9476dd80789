"""What a configuration may say: a model for each table, which makes the strategy that it describes.

The keys are the names of the strategies' own parameters, and the strategies check the values, so
there is one set of rules. pydantic collects the errors with their places, selects a table's model
by its `kind`, and derives the JSON Schema.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Union, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
)

from retrykit._fields import FIELDS
from retrykit._validate import function, shown
from retrykit.backoff import (
    Backoff,
    BackoffBase,
    ByReason,
    Constant,
    Custom,
    Decorrelated,
    Exponential,
    Fibonacci,
    Linear,
    Polynomial,
    Schedule,
)
from retrykit.budget import PerKey, RatioBudget, TokenBudget
from retrykit.classify import Classifier, FirstOf, Never, OnException, OnResult, transient
from retrykit.config._names import exception_named, exceptions, part_named, parts, reserve
from retrykit.config._values import (
    MOST_ITEMS,
    NOTHING,
    WORD,
    Attempts,
    Duration,
    EnvText,
    Exceptions,
    Flag,
    KeyedByReason,
    Limit,
    ListOf,
    MaybeDuration,
    Method,
    Name,
    Names,
    NotNegative,
    Number,
    Positive,
    Reason,
    Statuses,
    as_list,
    checked_by,
    is_nothing,
    unknown,
)
from retrykit.decision import RetryReason
from retrykit.events import LogRetries, log_retries
from retrykit.facts.methods import IDEMPOTENCY_KEY
from retrykit.http import HttpClassifier, OnStatus, per_host
from retrykit.jitter import (
    AdditiveJitter,
    EqualJitter,
    FullJitter,
    NoJitter,
    ProportionalJitter,
)
from retrykit.server_delay import ServerDelay

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from retrykit.budget import Budget
    from retrykit.events import Listener
    from retrykit.jitter import Jitter
    from retrykit.server_delay import ServerDelayStrategy

MOST_BACKOFFS: Final = 8
"""How many backoffs one table may join: each is a frame on the stack at every wait, and what a wait
costs grows by more than their number."""

SPECS: Final[dict[str, type[Spec]]] = {}
"""The model for each kind, by the mark that stands for it in the places of pydantic's errors."""

KINDLESS: Final = "standard"
"""The one kind that a table need not say: there is one server delay."""

MARKS: Final = {"=name", "=list", "=nothing"}
"""Those marks, and the others that stand in such places without being keys."""


class Spec(BaseModel):
    """A table, and what it describes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,  # one schema for all, when it is first needed
    )

    makes: ClassVar[Any] = None

    def make(self) -> Any:
        """The strategy, from the keys that were given: the defaults are its own."""
        given = {name: getattr(self, name) for name in self.model_fields_set if name != "kind"}
        return type(self).makes(**given)  # by the class: a function would be bound


def _made(value: Any) -> Any:
    if not isinstance(value, Spec):
        return value
    try:
        return value.make()
    except (TypeError, ValueError) as error:
        raise ValueError(str(error)) from None


def _choice(
    what: str,
    *specs: type[Spec],
    check: Callable[[str, Any], Any],
    named: Callable[[str], Any] = part_named,
    names: Callable[[], list[str]] = parts,
    listed: Any = None,
    nothing: bool = False,
    kindless: bool = False,
    remedy: str = "register",
) -> Any:
    """The annotation for a strategy: a table with its `kind`, or a text.

    A text is a kind that needs nothing else, or a name: `named` finds what it means, `check` is how
    the field takes it, and `names` are told to who mistyped one. `listed` is the strategy that a
    plain list describes; `nothing` allows `false`; `kindless` a table that does not say its kind;
    `remedy` is what makes a name known.
    """
    by_kind = {get_args(spec.model_fields["kind"].annotation)[0]: spec for spec in specs}
    SPECS.update({f"={kind}": spec for kind, spec in by_kind.items()})
    MARKS.update(SPECS)
    reserve(*by_kind)
    short = [kind for kind, spec in by_kind.items() if _needs_nothing(spec)]

    def by_name(name: str) -> Any:
        try:
            found = named(str(name))
        except LookupError:
            known = lambda: [*short, *names()]  # noqa: E731 - asked only if it is told
            raise unknown(f"must name {what}", name, known, remedy) from None
        return checked_by(check, found)

    def spelled(value: object) -> object:
        if nothing and is_nothing(value):
            return None
        if listed is not None and isinstance(value, EnvText) and value[:1].isdigit():
            return as_list(value)
        return {"kind": str(value)} if isinstance(value, str) and value in by_kind else value

    def tag(value: object) -> str | None:
        match value:
            case None if nothing:
                return "=nothing"
            case str():
                return "=name"
            case list() if listed is not None:
                return "=list"
            case {"kind": str(kind)}:
                return f"={kind}" if kind in by_kind else None
            case dict() if kindless:
                return f"={KINDLESS}"
            case _:
                return None

    texts: list[dict[str, Any]] = [{"enum": short}] if short else []
    by_text = WithJsonSchema({"anyOf": [*texts, {"type": "string", "minLength": 1}]})
    choices: list[Any] = [Annotated[spec, Tag(f"={kind}")] for kind, spec in by_kind.items()]
    choices.append(Annotated[Any, PlainValidator(by_name), by_text, Tag("=name")])
    if listed is not None:
        choices.append(Annotated[listed, Tag("=list")])
    if nothing:
        none = PlainValidator(lambda _: None)
        choices.append(Annotated[Any, none, WithJsonSchema(NOTHING), Tag("=nothing")])
    discriminator = Discriminator(
        tag,
        custom_error_type="no_kind",
        custom_error_message="no kind",
        custom_error_context={"kinds": ",".join(by_kind), "listed": listed is not None},
    )
    union: Any = Union[tuple(choices)]  # noqa: UP007 - of as many as there are
    return Annotated[union, discriminator, BeforeValidator(spelled), AfterValidator(_made)]


def _needs_nothing(spec: type[Spec]) -> bool:
    return not any(
        field.is_required() for name, field in spec.model_fields.items() if name != "kind"
    )


def _part(value: object, wanted: str) -> object:
    """What is registered under the name that the value is."""
    if not isinstance(value, str):
        raise ValueError(f"must be {wanted}, got {shown(value)}")  # noqa: TRY004 - pydantic collects ValueErrors
    try:
        return part_named(str(value))
    except LookupError:
        raise unknown(f"must be {wanted}", value, parts, "register") from None


def _function(value: object) -> Any:
    return checked_by(_checked_function, _part(value, "the name of a registered function"))


def _checked_function(name: str, value: object) -> object:
    function(name, value)
    return value


def _stop_when(value: object) -> Any:
    if is_nothing(value):
        return None
    return checked_by(FIELDS["stop_when"], _part(value, "a registered name (false: none)"))


_NAMED: Final = WithJsonSchema({"type": "string", "minLength": 1})

if TYPE_CHECKING:
    Function: TypeAlias = Any
    StopWhen: TypeAlias = Any
else:
    Function = Annotated[Any, PlainValidator(_function), _NAMED]
    StopWhen = Annotated[
        Any,
        PlainValidator(_stop_when),
        WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, NOTHING]}),
    ]


# Jitters


class NoJitterSpec(Spec):
    """The delay itself, each time."""

    makes = NoJitter
    kind: Literal["none"]


class FullJitterSpec(Spec):
    """Anything from nothing to the delay."""

    makes = FullJitter
    kind: Literal["full"]


class EqualJitterSpec(Spec):
    """Half of the delay for certain, the other half at random."""

    makes = EqualJitter
    kind: Literal["equal"]


class ProportionalJitterSpec(Spec):
    """The delay, give or take a share of it."""

    makes = ProportionalJitter
    kind: Literal["proportional"]
    ratio: Number = 0.2


class AdditiveJitterSpec(Spec):
    """The delay and up to an amount on top."""

    makes = AdditiveJitter
    kind: Literal["additive"]
    amount: Duration = 1.0


def _jitter(name: str, value: object) -> object:
    function(name, value)
    function(f"{name}.bounds", getattr(value, "bounds", None))
    return value


if TYPE_CHECKING:
    JitterField: TypeAlias = Jitter
else:
    JitterField = _choice(
        "a jitter",
        NoJitterSpec,
        FullJitterSpec,
        EqualJitterSpec,
        ProportionalJitterSpec,
        AdditiveJitterSpec,
        check=_jitter,
    )


# Backoffs


class ConstantSpec(Spec):
    """The same wait before every retry, exactly."""

    makes = Constant
    kind: Literal["constant"]
    delay: Duration


class ExponentialSpec(Spec):
    """Waits that grow by a factor each time, up to a cap, jittered."""

    makes = Exponential
    kind: Literal["exponential"]
    base: Duration
    factor: Number = 2
    cap: MaybeDuration = None
    jitter: JitterField = Field(default_factory=FullJitter)


class LinearSpec(Spec):
    """Waits that grow by the same number of seconds each time, jittered."""

    makes = Linear
    kind: Literal["linear"]
    start: Duration
    step: Duration
    jitter: JitterField = Field(default_factory=FullJitter)


class PolynomialSpec(Spec):
    """Waits that grow with a power of the retry's number, jittered."""

    makes = Polynomial
    kind: Literal["polynomial"]
    base: Duration
    power: Number
    jitter: JitterField = Field(default_factory=FullJitter)


class FibonacciSpec(Spec):
    """Waits that grow as the Fibonacci numbers, jittered."""

    makes = Fibonacci
    kind: Literal["fibonacci"]
    base: Duration
    jitter: JitterField = Field(default_factory=FullJitter)


class DecorrelatedSpec(Spec):
    """Waits drawn from the one before."""

    makes = Decorrelated
    kind: Literal["decorrelated"]
    base: Duration
    cap: Duration


class ScheduleSpec(Spec):
    """The listed waits, exactly, and then no more. A plain list is the same."""

    kind: Literal["schedule"]
    delays: list[Duration] = Field(max_length=MOST_ITEMS)

    def make(self) -> Backoff:
        return Schedule(*self.delays)


class ByReasonSpec(Spec):
    """A backoff for each reason, each at its own position."""

    makes = ByReason
    kind: Literal["by_reason"]
    branches: Annotated[dict[Reason, BackoffField], KeyedByReason()]
    default: BackoffField

    def make(self) -> Backoff:
        return ByReason(self.branches, default=self.default)


class CustomSpec(Spec):
    """A registered backoff of the program's own, with the combinators lent to it."""

    makes = Custom
    kind: Literal["custom"]
    backoff: BackoffField


class CappedSpec(Spec):
    """Another backoff with no wait above the cap."""

    kind: Literal["capped"]
    cap: Duration
    backoff: BackoffField

    def make(self) -> Backoff:
        return _base(self.backoff).capped(self.cap)


class AtLeastSpec(Spec):
    """Another backoff with no wait below the floor."""

    kind: Literal["at_least"]
    floor: Duration
    backoff: BackoffField

    def make(self) -> Backoff:
        return _base(self.backoff).at_least(self.floor)


class TakeSpec(Spec):
    """The first waits of another backoff only, so at most as many retries."""

    kind: Literal["take"]
    n: NotNegative
    backoff: BackoffField

    def make(self) -> Backoff:
        return _base(self.backoff).take(self.n)


class JitteredSpec(Spec):
    """Another backoff with every wait drawn by a jitter."""

    kind: Literal["jittered"]
    jitter: JitterField
    backoff: BackoffField

    def make(self) -> Backoff:
        return _base(self.backoff).jittered(self.jitter)


class ThenSpec(Spec):
    """One backoff after another."""

    kind: Literal["then"]
    backoffs: list[BackoffField] = Field(min_length=2, max_length=MOST_BACKOFFS)

    def make(self) -> Backoff:
        return reduce(BackoffBase.then, map(_base, self.backoffs))


class SumSpec(Spec):
    """Several backoffs added up, step by step."""

    kind: Literal["sum"]
    backoffs: list[BackoffField] = Field(min_length=2, max_length=MOST_BACKOFFS)

    def make(self) -> Backoff:
        return reduce(add, map(_base, self.backoffs))


def _base(backoff: Backoff) -> BackoffBase:
    return backoff if isinstance(backoff, BackoffBase) else Custom(backoff)


if TYPE_CHECKING:
    BackoffField: TypeAlias = Backoff
else:
    BackoffField = _choice(
        "a backoff",
        ConstantSpec,
        ExponentialSpec,
        LinearSpec,
        PolynomialSpec,
        FibonacciSpec,
        DecorrelatedSpec,
        ScheduleSpec,
        ByReasonSpec,
        CustomSpec,
        CappedSpec,
        AtLeastSpec,
        TakeSpec,
        JitteredSpec,
        ThenSpec,
        SumSpec,
        check=FIELDS["backoff"],
        listed=Annotated[
            list[Duration],
            Field(max_length=MOST_ITEMS),
            AfterValidator(lambda delays: Schedule(*delays)),
        ],
    )


# Server delay


class ServerDelaySpec(Spec):
    """What a wait that the other side asked for does."""

    makes = ServerDelay
    kind: Literal["standard"] = "standard"
    limit: Duration = 60.0
    over_limit: Annotated[Literal["stop", "cap", "ignore"], WORD] = "stop"
    combine: Annotated[Literal["precedence", "floor"], WORD] = "precedence"
    spread: Number = 0.1


if TYPE_CHECKING:
    ServerDelayField: TypeAlias = ServerDelayStrategy
else:
    ServerDelayField = _choice(
        "a server delay", ServerDelaySpec, check=FIELDS["server_delay"], kindless=True
    )


# Budgets


class RatioBudgetSpec(Spec):
    """Each successful call earns a share of a retry; each retry costs 1."""

    makes = RatioBudget
    kind: Literal["ratio"]
    ratio: Number = 0.5
    reserve: Number = 20


class TokenBudgetSpec(Spec):
    """A bucket of tokens, and a retry costs by its reason."""

    makes = TokenBudget
    kind: Literal["token"]
    tokens: Number = 500
    prices: Annotated[dict[Reason, Number], KeyedByReason()] = Field(
        default_factory=lambda: {RetryReason.THROTTLED: 5.0}
    )
    default: Number = 14
    reward: Number = 1


class PerKeySpec(Spec):
    """A budget of its own for each key, which a registered function reads off the call."""

    makes = PerKey
    kind: Literal["per_key"]
    key: Function
    budget: BudgetField
    size: Positive = 1000


class PerHostSpec(Spec):
    """A budget of its own for each host that requests go to."""

    makes = per_host
    kind: Literal["per_host"]
    budget: BudgetField = Field(default_factory=RatioBudget)
    size: Positive = 1000


if TYPE_CHECKING:
    BudgetField: TypeAlias = Budget
    MaybeBudget: TypeAlias = Budget | None
else:
    _BUDGETS = (RatioBudgetSpec, TokenBudgetSpec, PerKeySpec, PerHostSpec)
    BudgetField = _choice("a budget", *_BUDGETS, check=FIELDS["budget"])
    MaybeBudget = _choice("a budget", *_BUDGETS, check=FIELDS["budget"], nothing=True)


# Listeners


class LogSpec(Spec):
    """Log lines, to the logger of that name."""

    makes = LogRetries
    kind: Literal["log_retries"]
    logger: str = "retrykit"


if TYPE_CHECKING:
    ListenerField: TypeAlias = Listener
else:
    ListenerField = _choice("a listener", LogSpec, check=_checked_function)


# Classifiers


class TransientSpec(Spec):
    """What is transient as far as the standard library can tell: the default."""

    kind: Literal["transient"]

    def make(self) -> Classifier:
        return transient


class HttpSpec(Spec):
    """Status by method, failures by phase: the right decision for HTTP, whichever client."""

    makes = HttpClassifier
    kind: Literal["http"]
    method: Method = None
    unless: Function = None
    key_names: Names = IDEMPOTENCY_KEY


class StatusSpec(Spec):
    """Responses with these statuses, whatever the method."""

    kind: Literal["status"]
    statuses: Statuses
    reason: Reason = RetryReason.SERVER_ERROR

    def make(self) -> Classifier:
        return OnStatus(*self.statuses, reason=self.reason)


class ExceptionSpec(Spec):
    """These exception types, narrowed by registered functions."""

    makes = OnException
    kind: Literal["exception"]
    types: Exceptions
    when: Function = None
    after: Function = None
    causes: Flag = False
    reason: Reason = RetryReason.TRANSIENT

    def make(self) -> Classifier:
        given = {each: getattr(self, each) for each in self.model_fields_set - {"kind", "types"}}
        return OnException(*self.types, **given)


class ResultSpec(Spec):
    """Results for which a registered predicate is true."""

    makes = OnResult
    kind: Literal["result"]
    predicate: Function
    reason: Reason = RetryReason.UNSATISFACTORY


class NeverSpec(Spec):
    """Never these exception types."""

    makes = Never
    kind: Literal["never"]
    types: Exceptions

    def make(self) -> Classifier:
        return Never(*self.types)


class FirstOfSpec(Spec):
    """The first of several rules that has an opinion, as a rule by itself."""

    kind: Literal["first_of"]
    rules: AnyRules

    def make(self) -> Classifier:
        return FirstOf(*joined(self.rules))


def _rule_named(name: str) -> object:
    try:
        return exception_named(name)
    except LookupError:
        return part_named(name)


def _rule(name: str, value: object) -> object:
    return value if isinstance(value, type) else FIELDS["classify"](name, value)


if TYPE_CHECKING:
    Rule: TypeAlias = Classifier | type[BaseException]
    Rules: TypeAlias = list[Rule]
    AnyRules: TypeAlias = list[Rule]
    Listeners: TypeAlias = list[Listener]
else:
    Rule = _choice(
        "an exception type or a classifier",
        TransientSpec,
        HttpSpec,
        StatusSpec,
        ExceptionSpec,
        ResultSpec,
        NeverSpec,
        FirstOfSpec,
        check=_rule,
        named=_rule_named,
        names=lambda: [*exceptions(), *parts()],
        remedy="register_exception",
    )
    AnyRules = Annotated[
        list[Rule], BeforeValidator(as_list), Field(max_length=MOST_ITEMS), ListOf()
    ]
    Rules = Annotated[AnyRules, Field(min_length=1)]
    Listeners = Annotated[
        list[ListenerField], BeforeValidator(as_list), Field(max_length=MOST_ITEMS), ListOf()
    ]


def joined(rules: Rules) -> list[Classifier]:
    """The rules as classifiers: exception types that are named one after another are one rule."""
    classifiers: list[Classifier] = []
    types: list[type[BaseException]] = []
    for rule in (*rules, None):
        if isinstance(rule, type):
            types.append(rule)
            continue
        if types:
            classifiers.append(OnException(*types))
            types = []
        if rule is not None:
            classifiers.append(rule)
    return classifiers


# Policies


def _transient() -> Rules:
    return [transient]


def _logged() -> Listeners:
    return [log_retries]


class EndpointSection(Spec):
    """What differs for the requests of one endpoint; the rest is the policy's own."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    on: Rules = Field(default_factory=_transient)
    """What to retry: names of exception types, "http", "transient", names of registered
    classifiers, or tables; asked in turn, and the first that has an opinion decides."""
    never: Exceptions = Field(default_factory=list[Any])
    """Exception types that are never retried: asked before everything else."""
    on_status: Statuses = Field(default_factory=list[Any])
    """Response statuses that are retried, whatever the method: asked before `on`."""
    attempts: Attempts = 5
    """Calls at most, the first included; "inf" for no limit. Where there is a deadline, there is
    no limit unless it is named."""
    limits: Annotated[dict[Reason, NotNegative], KeyedByReason()] = Field(
        default_factory=dict[Any, Any]
    )
    """Retries at most for a reason, within one call."""
    deadline: Limit = None
    """For the whole call, waits included: seconds, or a text such as "30s"."""
    attempt_timeout: Limit = None
    """For one attempt: seconds, or a text such as "5s"."""
    backoff: BackoffField = Field(default_factory=lambda: Exponential(0.25, factor=2, cap=20))
    """The waits: a table with its kind, or a list of durations."""
    server_delay: ServerDelayField = Field(default_factory=ServerDelay)
    """What a wait that the other side asked for (Retry-After) does to the backoff's."""
    budget: MaybeBudget = None
    """What all calls together may spend on retries."""
    unsatisfied: Annotated[Literal["raise", "return"], WORD] = "raise"
    """The end of a call whose last result was still worth another attempt."""
    listeners: Listeners = Field(default_factory=_logged)
    """Who is told of each event; none for silence."""
    stop_when: StopWhen = None
    """The name of a registered function or event: no more retries once it is true."""
    nested: Annotated[Literal["allow", "suppress"], WORD] = "allow"
    """"suppress" makes one attempt inside another retried call."""
    name: Name = None
    """For events and metrics; the section's own name where it is left out."""

    def fields(self, beneath: EndpointSection | None = None) -> dict[str, Any]:
        """The fields of a policy that are given here; `beneath` is the policy that this changes."""
        given = {name: getattr(self, name) for name in self.model_fields_set & FIELDS.keys()}
        if self.model_fields_set & _CLASSIFY:
            given["classify"] = self._classifier(beneath)
        return given

    def _classifier(self, beneath: EndpointSection | None) -> Classifier:
        sections = [self] if beneath is None else [self, beneath]
        on, never, statuses = [
            next((getattr(s, name) for s in sections if name in s.model_fields_set), None)
            for name in ("on", "never", "on_status")
        ]
        classifiers: list[Classifier] = [Never(*never)] if never else []
        if statuses:
            classifiers.append(OnStatus(*statuses))
        classifiers += joined(on or [transient])
        return classifiers[0] if len(classifiers) == 1 else FirstOf(*classifiers)


_CLASSIFY: Final = frozenset({"on", "never", "on_status"})


class PolicySection(EndpointSection):
    """A policy."""

    endpoints: dict[str, EndpointSection] = Field(default_factory=dict)
    """For HTTP: what differs by endpoint, as `"GET /search/*"`."""


class Document(Spec):
    """Named policies for retrykit."""

    model_config = ConfigDict(title="retrykit.toml", use_attribute_docstrings=True)

    policies: dict[str, PolicySection]
    """The policies by their names."""
