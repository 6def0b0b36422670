"""`/api/v1/teams/` and `/api/v1/invitations/`."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.api.authentication import actor_of
from console.api.idempotency import idempotent
from console.api.people_serializers import (
    ChangeTeamSerializer,
    CreateTeamSerializer,
    InvitationSerializer,
    InviteSerializer,
    NewInvitationSerializer,
    SetMemberSerializer,
    TeamDetailSerializer,
    TeamSerializer,
)
from console.api.serializers import ReasonSerializer
from console.models import Invitation, Team
from console.selectors.teams import find_team, invitations, members_of, team_list, with_states
from console.services.invitations import invite, revoke_invitation
from console.services.teams import (
    change_team,
    create_team,
    delete_team,
    remove_member,
    set_member,
)

MANAGE: dict[str, str] = dict.fromkeys(("POST", "PATCH", "PUT", "DELETE"), "team.manage")


class TeamListView(ListAPIView[Team]):
    serializer_class = TeamSerializer
    required_actions: ClassVar[dict[str, str]] = MANAGE
    pagination_ordering: ClassVar[tuple[str, ...]] = ("slug",)
    queryset = Team.objects.none()

    @extend_schema(summary="List teams", parameters=[OpenApiParameter("q", str)])
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(team_list(q=request.query_params.get("q", "")[:100]))
        return self.get_paginated_response(TeamSerializer(page, many=True).data)

    @extend_schema(
        summary="Make a team", request=CreateTeamSerializer, responses={201: TeamDetailSerializer}
    )
    @idempotent
    def post(self, request: Request) -> Response:
        body = CreateTeamSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        team = create_team(**body.validated_data, actor=actor_of(request))
        return Response(_team(team.slug), status.HTTP_201_CREATED)


class TeamView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(summary="Show a team and its members", responses=TeamDetailSerializer)
    def get(self, request: Request, slug: str) -> Response:
        return Response(_team(slug))

    @extend_schema(
        summary="Rename or describe a team",
        request=ChangeTeamSerializer,
        responses=TeamDetailSerializer,
    )
    @idempotent
    def patch(self, request: Request, slug: str) -> Response:
        body = ChangeTeamSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        team = find_team(slug)
        wanted = {"name": team.name, "description": team.description, **body.validated_data}
        change_team(slug=slug, **wanted, actor=actor_of(request))
        return Response(_team(slug))

    @extend_schema(
        summary="Delete a team to which nothing belongs",
        request=ReasonSerializer,
        responses={204: None},
    )
    def delete(self, request: Request, slug: str) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        delete_team(slug=slug, reason=body.validated_data["reason"], actor=actor_of(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


class TeamMemberView(APIView):
    required_actions: ClassVar[dict[str, str]] = MANAGE

    @extend_schema(
        summary="Take somebody in, or give a member exactly these roles",
        request=SetMemberSerializer,
        responses=TeamDetailSerializer,
    )
    @idempotent
    def put(self, request: Request, slug: str, username: str) -> Response:
        body = SetMemberSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        set_member(slug=slug, username=username, **body.validated_data, actor=actor_of(request))
        return Response(_team(slug))

    @extend_schema(
        summary="Take somebody out of a team",
        request=ReasonSerializer,
        responses=TeamDetailSerializer,
    )
    def delete(self, request: Request, slug: str, username: str) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        remove_member(slug=slug, username=username, **body.validated_data, actor=actor_of(request))
        return Response(_team(slug))


class InvitationListView(ListAPIView[Invitation]):
    serializer_class = InvitationSerializer
    required_actions: ClassVar[dict[str, str]] = {"GET": "user.manage", "POST": "user.manage"}
    pagination_ordering: ClassVar[tuple[str, ...]] = ("-created_at", "pk")
    queryset = Invitation.objects.none()

    @extend_schema(summary="List invitations with their states")
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(invitations()) or []
        return self.get_paginated_response([_invitation(one) for one in page])

    @extend_schema(
        summary="Invite somebody; the link is given once, and mailed where mail is set up",
        request=InviteSerializer,
        responses={201: NewInvitationSerializer},
    )
    def post(self, request: Request) -> Response:
        body = InviteSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        invited = invite(**body.validated_data, actor=actor_of(request))
        answer = {
            **_invitation(invited.invitation),
            "link": invited.link,
            "mailed": invited.mailed,
            "mail_fault": invited.mail_fault,
        }
        return Response(answer, status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})


class InvitationRevokeView(APIView):
    required_actions: ClassVar[dict[str, str]] = {"POST": "user.manage"}

    @extend_schema(
        summary="Revoke an invitation", request=ReasonSerializer, responses=InvitationSerializer
    )
    @idempotent
    def post(self, request: Request, invitation_id: UUID) -> Response:
        body = ReasonSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        invitation = revoke_invitation(
            invitation_id=str(invitation_id), **body.validated_data, actor=actor_of(request)
        )
        return Response(_invitation(invitation))


def _team(slug: str) -> dict[str, Any]:
    team = find_team(slug)
    team.members_shown = members_of(team)  # type: ignore[attr-defined]
    return dict(TeamDetailSerializer(team).data)


def _invitation(invitation: Invitation) -> dict[str, Any]:
    [(_, state, _roles)] = with_states([invitation])
    invitation.state = state  # type: ignore[attr-defined]
    return dict(InvitationSerializer(invitation).data)
