"""Grants: a person's yes to one call, made and verified. Pure; state/ keeps them, runner/ asks.

A grant is bound to project, session, approval, call, tool, arguments and the digest of the policy, and it expires.
That it is used once is the journal's part. With a key it is signed, and then nobody without the key can make one.
"""

from __future__ import annotations

import hashlib

from agentctl.core.record import as_dict
from agentctl.core.types import Grant, JsonObject, PendingCall


def digest_of(args: JsonObject) -> str:
    """SHA-256 in hex of arguments: the same for the same JSON value, whatever the order of its keys."""
    return hashlib.sha256(_canonical(args)).hexdigest()


def grant_for(pending: PendingCall, *, project: str, session: str, key: str = "") -> Grant:
    """The yes to exactly this call; signed when there is a key."""
    grant = Grant(
        approval=pending.id,
        project=project,
        session=session,
        call_id=pending.call_id,
        name=pending.name,
        arguments=digest_of(pending.input),
        policy=pending.policy,
        expires=pending.expires,
    )
    return grant.replace(signature=_sign(grant, key)) if key else grant


def fault_of(grant: Grant, pending: PendingCall, *, project: str, session: str, key: str = "") -> str:
    """Why a grant is none for this call; empty when it is. Without a key signatures are not looked at."""
    expected = grant_for(pending, project=project, session=session)
    if grant.replace(signature="") != expected:
        return "it was given for another call"
    if not key:
        return ""
    if not grant.signature:
        return "it is not signed, and AGENTCTL_APPROVAL_KEY is set"
    from hmac import compare_digest  # signed grants are rare; a run without them does not pay for it

    is_ours = compare_digest(grant.signature.encode(), _sign(expected, key).encode())
    return "" if is_ours else "its signature was not made with AGENTCTL_APPROVAL_KEY"


def _sign(grant: Grant, key: str) -> str:
    import hmac  # see above

    facts = {name: value for name, value in as_dict(grant).items() if name != "signature"}
    return hmac.new(key.encode("utf-8", "surrogateescape"), _canonical(facts), hashlib.sha256).hexdigest()


def _canonical(value: JsonObject) -> bytes:
    """Keys in order at every depth, nothing but ASCII."""
    from json import dumps  # orjson knows neither the order of our choice nor integers beyond 64 bits

    return dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode("ascii")
