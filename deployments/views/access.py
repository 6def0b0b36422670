"""Who may call an endpoint: the policy as a form, and what the gateway answers to whom."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from console.actors import allowed, require
from console.api.authentication import actor_of, user_of
from console.errors import CovenantError, NotFound
from deployments.access_forms import AccessPolicyForm, policy_initial
from deployments.models import AccessPolicy, Endpoint
from deployments.rules.access.policies import period_words, policy_document
from deployments.rules.access.rules import AccessRules, RateLimit
from deployments.rules.gateways.capabilities import Capability, lack_words, lacks
from deployments.selectors.access.callers import issuers_of
from deployments.selectors.access.policies import policy_at
from deployments.selectors.gateways.capabilities import gateways_of
from deployments.services.access.policies import set_access_policy


@dataclass(frozen=True, slots=True)
class Answer:
    """What one kind of caller gets: a status, its code, and who that is."""

    status: int
    code: str
    who: str


@require_http_methods(["GET", "POST"])
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The policy of an endpoint; POST puts another in force."""
    endpoint, policy, rules = policy_at(environment, model, user=user_of(request))
    names = [one.name for one in issuers_of(environment)]
    if request.method != "POST":
        form = AccessPolicyForm(
            initial=policy_initial(rules, policy.revision if policy else 0), issuers=names
        )
        return _page(request, endpoint, policy, rules, form)
    require(actor_of(request), "access.change", endpoint.model.team_id)
    form = AccessPolicyForm(request.POST, issuers=names)
    if form.is_valid():
        try:
            set_access_policy(
                environment=environment,
                model=model,
                policy=form.document(),
                expected_revision=form.cleaned_data["revision"],
                reason=form.cleaned_data["reason"],
                actor=actor_of(request),
            )
        except NotFound:
            raise
        except CovenantError as error:
            form.add_refusal(error)
        else:
            messages.success(request, _("The policy is in force as soon as the gateways have it."))
            return redirect("deployments:endpoint-access", environment, model)
    return _page(request, endpoint, policy, rules, form, status=422)


def answers(rules: AccessRules) -> list[Answer]:
    """What the gateway answers to whom, first match first, in the order in which it looks."""
    found: list[Answer] = []

    def refuse(status: int, code: str, who: str) -> None:
        found.append(Answer(status, code, who))

    if rules.has_networks:
        refuse(403, "network_denied", _network_words(rules))
    if rules.issuers:
        refuse(
            401, "token_refused", _("brings a token that is wrong, expired or of another issuer")
        )
    if rules.api_key:
        refuse(401, "key_refused", _("brings an API key that is unknown, expired or revoked"))
    if rules.required or rules.allow_callers:
        refuse(401, "authentication_required", _("does not say who it is"))
    if rules.identifies:
        refuse(403, "caller_blocked", _("is blocked in this environment"))
    if rules.deny_callers:
        refuse(403, "caller_denied", _("is on the deny list"))
    if rules.allow_callers:
        refuse(403, "caller_not_allowed", _("is not on the allow list"))
    if rules.per_caller:
        refuse(
            429, "rate_limited", _("sends more than %(rate)s") % {"rate": _rate(rules.per_caller)}
        )
    if rules.total:
        words = _("comes when all together have sent more than %(rate)s")
        refuse(429, "rate_limited", words % {"rate": _rate(rules.total)})
    return found


def _page(
    request: HttpRequest,
    endpoint: Endpoint,
    policy: AccessPolicy | None,
    rules: AccessRules,
    form: AccessPolicyForm,
    status: int = 200,
) -> HttpResponse:
    environment, model = endpoint.environment.name, endpoint.model.name
    context: dict[str, Any] = {
        "environment": environment,
        "model": model,
        "policy": policy,
        "rules": rules,
        "form": form,
        "answers": answers(rules),
        "lacks": _lacks(environment),
        "document": json.dumps(policy_document(rules), indent=2, ensure_ascii=False),
        "may_change": allowed(actor_of(request), "access.change", endpoint.model.team_id),
        "nav_section": "endpoints",
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
    return render(request, "deployments/access/detail.html", context, status=status)


def _lacks(environment: str) -> list[str]:
    """What a gateway of the environment cannot do of what a policy may ask, one sentence each."""
    known = gateways_of(environment)
    wanted = (
        Capability.AUTHENTICATION,
        Capability.ALLOW_DENY,
        Capability.RATE_LIMITS,
        Capability.BODY_LIMIT,
        Capability.CONCURRENCY,
        Capability.VALIDATION,
    )
    return [lack_words(lack) for one in wanted for lack in lacks(known, one)]


def _network_words(rules: AccessRules) -> str:
    if rules.allow_networks and rules.deny_networks:
        return _("calls from a denied network, or from none of the allowed ones")
    if rules.deny_networks:
        return _("calls from a denied network")
    return _("calls from none of the allowed networks")


def _rate(limit: RateLimit) -> str:
    words = ngettext(
        "%(n)d request in %(per)s (%(burst)d at once)",
        "%(n)d requests in %(per)s (%(burst)d at once)",
        limit.requests,
    )
    return words % {"n": limit.requests, "per": period_words(limit.per_ms), "burst": limit.burst}
