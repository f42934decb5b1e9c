"""Providers around a Provider: what is done about a failure before the run hears of it.

`Retrying` waits and asks again, `SelfHealing` changes the request, `EndpointFallback` changes the wire format. Their
order is make.py's. Each says what it did in the stream and pays (`Attempt`) for the responses it threw away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from agentctl.core.errors import AuthError, ContextOverflow, OutputCapped, ProviderError
from agentctl.core.events import Notice, Retry
from agentctl.core.ports import Attempt, Clock, Provider, StreamItem
from agentctl.core.types import Api, JsonObject, Request
from agentctl.providers.adapter import Healing
from agentctl.providers.cures import Cure, cures_for
from agentctl.providers.streams import OUTPUT, closing

ATTEMPTS = 4
WAITING_S = 60.0
"""Longest time that one model call spends waiting, over all its attempts."""
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 16.0
_JITTER_S = 0.5


class Retrying:
    """Asks again after what may pass: rate limits, overload, network, failed and incomplete streams."""

    def __init__(
        self, inner: Provider, clock: Clock, *, attempts: int = ATTEMPTS, waiting_s: float = WAITING_S
    ) -> None:
        self._inner = inner
        self._clock = clock
        self._attempts = attempts
        self._waiting_s = waiting_s

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        series = _Series(self._attempts, self._waiting_s)
        while True:
            has_output = False
            try:
                async with closing(self._inner.stream(request)) as items:
                    async for item in items:
                        has_output = has_output or isinstance(item, OUTPUT)
                        yield item
                return
            except ProviderError as error:
                failure = error
            wait = series.wait_after(failure)
            if failure.usage is not None:
                yield Attempt(usage=failure.usage)
            yield Retry(
                attempt=series.failed + 1,
                of=self._attempts,
                wait_s=round(wait, 3),
                reason=failure.message,
                status=failure.status,
                discard=has_output,
            )
            await self._clock.sleep(wait)

    async def close(self) -> None:
        await self._inner.close()


class _Series:
    """The attempts of one model call."""

    def __init__(self, attempts: int, waiting_s: float) -> None:
        self._attempts = attempts
        self._left_s = waiting_s
        self._last: ProviderError | None = None
        self.failed = 0

    def wait_after(self, failure: ProviderError) -> float:
        """Seconds to wait before the next attempt. Raises the failure when there is none."""
        self.failed += 1
        if not failure.retryable:
            raise failure
        if self._is_same_rejection(failure):
            raise ProviderError(failure.message, hint=failure.hint, status=failure.status, usage=failure.usage)
        if self.failed >= self._attempts:
            raise _with_note(failure, f"asked {self.failed} times")
        wait = failure.retry_after_s or _backoff(self.failed)
        if wait > self._left_s:
            raise _with_note(failure, f"the wait until the next attempt is {wait:.0f} s, {self._left_s:.0f} s are left")
        self._last = failure
        self._left_s -= wait
        return wait

    def _is_same_rejection(self, failure: ProviderError) -> bool:
        """A proxy's 5xx around the same rejection once more: the request can never pass."""
        return failure.kind == "proxied_rejection" and self._last is not None and self._last.message == failure.message


def _backoff(failed: int) -> float:
    import tenacity  # only ever needed after a failure

    state = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
    state.attempt_number = failed
    growing = tenacity.wait_exponential(multiplier=_FIRST_WAIT_S, max=_LONGEST_WAIT_S)
    return growing(state) + tenacity.wait_random(0, _JITTER_S)(state)


def _with_note(failure: ProviderError, note: str) -> ProviderError:
    failure.message = f"{failure.message.rstrip('.')} ({note})"
    failure.args = (failure.message,)
    return failure


class Healable(Protocol):
    """A Provider whose requests can be changed; WireProvider is one."""

    def body(self, request: Request, healing: Healing) -> JsonObject: ...

    def stream_healed(self, request: Request, healing: Healing) -> AsyncIterator[StreamItem]: ...

    async def close(self) -> None: ...


class SelfHealing:
    """Sends a changed request, once per cause, when a refusal says what to change; remembers it for the run."""

    def __init__(self, inner: Healable, *, leaves_endpoint: bool = False) -> None:
        self._inner = inner
        self._leaves_endpoint = leaves_endpoint
        self._learned = Healing()

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        learned = healing = self._learned
        causes: set[str] = set()
        while True:
            has_output = False
            try:
                async with closing(self._inner.stream_healed(request, healing)) as items:
                    async for item in items:
                        has_output = has_output or isinstance(item, OUTPUT)
                        yield item
                self._learned = learned
                return
            except ProviderError as error:
                failure = error
            if failure.retryable:
                self._learned = learned  # the changed request was not refused
            cure = None if has_output else self._cure(failure, request, healing, causes)
            if cure is None:
                raise failure
            if failure.usage is not None:
                yield Attempt(usage=failure.usage)
            yield Notice(code="request-changed", text=cure.notice)
            causes.add(cure.cause)
            learned = self._merged(learned, healing, cure)
            healing = cure.healing

    async def close(self) -> None:
        await self._inner.close()

    def _cure(self, failure: ProviderError, request: Request, healing: Healing, causes: set[str]) -> Cure | None:
        """The first untried cure that changes the request at all."""
        sent = self._inner.body(request, healing)
        for cure in cures_for(failure, healing, leaves_endpoint=self._leaves_endpoint):
            if cure.cause not in causes and self._inner.body(request, cure.healing) != sent:
                return cure
        return None

    @staticmethod
    def _merged(learned: Healing, healing: Healing, cure: Cure) -> Healing:
        """What is remembered, with the fields that this cure changed."""
        if not cure.is_remembered:
            return learned
        changed = {
            name: getattr(cure.healing, name)
            for name in Healing.fields
            if getattr(cure.healing, name) != getattr(healing, name)
        }
        return learned.replace(**changed)


class EndpointFallback:
    """Goes on over another wire format of the same service when the first one is not what the model is served by.

    Sticky for the run. When the other format is no better, the failure of the first one stands.
    """

    STATUSES = frozenset({400, 404, 405, 415, 422, 501})

    def __init__(self, first: Provider, others: Sequence[tuple[Api, Callable[[], Provider]]]) -> None:
        self._active = first
        self._others = list(others)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        has_output = False
        try:
            async with closing(self._active.stream(request)) as items:
                async for item in items:
                    has_output = has_output or isinstance(item, OUTPUT)
                    yield item
            return
        except ProviderError as error:
            if has_output or not self._others or not _is_about_endpoint(error):
                raise
            first_failure = error
        for api, make in list(self._others):
            begun = False
            try:
                async with closing(self._opened(api, make(), request, first_failure)) as items:
                    async for item in items:
                        begun = begun or not isinstance(item, Attempt)
                        yield item
                return
            except ProviderError as error:
                if begun or error.retryable or isinstance(error, (ContextOverflow, OutputCapped)):
                    raise
                paid = error.usage
            if paid is not None:
                yield Attempt(usage=paid)
        raise first_failure

    async def close(self) -> None:
        await self._active.close()

    async def _opened(
        self, api: Api, provider: Provider, request: Request, first_failure: ProviderError
    ) -> AsyncIterator[StreamItem]:
        """The stream of another wire format. It speaks only once it has an answer; then it is the one to stay."""
        held: list[Notice] = []
        async with closing(provider.stream(request)) as items:
            async for item in items:
                if provider is not self._active and isinstance(item, Notice):
                    held.append(item)
                    continue
                if provider is not self._active and not isinstance(item, Attempt):
                    self._active, self._others = provider, []
                    yield Notice(code="endpoint-changed", text=_fallback_text(api, first_failure))
                    for early in held:
                        yield early
                yield item


def _is_about_endpoint(error: ProviderError) -> bool:
    """Whether another endpoint may do better. Keys, credit, limits and lengths are the same on all of them."""
    is_account = isinstance(error, AuthError) and error.kind != "model_not_found"
    is_length = isinstance(error, (ContextOverflow, OutputCapped))
    is_settled = error.retryable or is_account or is_length or error.kind == "refusal"
    return not is_settled and error.status in EndpointFallback.STATUSES


def _fallback_text(api: Api, failure: ProviderError) -> str:
    return f"{failure.message.rstrip('.')}. Went on over {api}, for the rest of this run."
