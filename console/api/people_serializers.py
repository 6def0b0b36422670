"""What the API on people, teams, invitations and service accounts reads and answers."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.serializers import TokenSerializer
from console.models import Invitation, Role, Team, User, WorkloadIdentity
from console.rules.invitations import FEWEST_DAYS, MOST_DAYS, USUAL_DAYS
from console.selectors.people import PersonRow
from console.services.service_accounts import MACHINE_ROLES
from console.services.teams import TEAM_ROLES
from console.services.tokens import MACHINE_SCOPES


class RolesField(serializers.ListField):
    """Roles by name; `known` are those that may be given there."""

    def __init__(self, known: Any = tuple(Role.values), **options: Any) -> None:
        super().__init__(child=serializers.ChoiceField(list(known)), **options)


class MembershipSerializer(serializers.Serializer[Any]):
    team = serializers.SlugField(max_length=64)
    roles = RolesField(TEAM_ROLES, required=False, default=list)


class HeldSeatSerializer(serializers.Serializer[Any]):
    model = serializers.CharField()
    seat = serializers.CharField()


class PersonSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(source="person.username")
    display_name = serializers.CharField(source="person.display_name")
    email = serializers.CharField(source="person.email")
    active = serializers.BooleanField(source="person.is_active")
    roles = RolesField(source="person.roles")
    teams = serializers.SerializerMethodField()
    seats = serializers.SerializerMethodField()
    since = serializers.DateTimeField(source="person.date_joined")
    last_seen = serializers.DateTimeField(allow_null=True)
    deactivated_at = serializers.DateTimeField(source="person.deactivated_at", allow_null=True)

    @extend_schema_field(MembershipSerializer(many=True))
    def get_teams(self, row: PersonRow) -> list[dict[str, Any]]:
        return [{"team": slug, "roles": roles} for slug, roles in sorted(row.team_roles.items())]

    @extend_schema_field(HeldSeatSerializer(many=True))
    def get_seats(self, row: PersonRow) -> list[dict[str, str]]:
        return [{"model": model, "seat": seat} for model, seat in row.seats]


class CreatePersonSerializer(serializers.Serializer[Any]):
    username = serializers.SlugField(max_length=64)
    display_name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default=""
    )
    email = serializers.EmailField(required=False, allow_blank=True, default="")
    roles = RolesField(required=False, default=list)


class NewPersonSerializer(PersonSerializer):
    password = serializers.CharField(help_text="The first password; it is given this once.")


class ChangeRolesSerializer(serializers.Serializer[Any]):
    roles = RolesField()
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class DutySerializer(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="What names it in `successors`.")
    kind = serializers.ChoiceField(["seat", "owner", "approval"])
    subject = serializers.CharField()
    url = serializers.CharField()
    needs_successor = serializers.BooleanField()
    suggested = serializers.ListField(child=serializers.CharField())


class DepartureSerializer(serializers.Serializer[Any]):
    duties = DutySerializer(many=True)
    last_admin = serializers.BooleanField()
    keys = serializers.IntegerField()
    tokens = serializers.IntegerField()
    jobs = serializers.IntegerField()
    invitations = serializers.IntegerField()


class DeactivateSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=300)
    successors = serializers.DictField(
        child=serializers.CharField(max_length=64),
        required=False,
        default=dict,
        help_text='For each duty a user name: {"seat:fraud_detector:sre": "kim"}.',
    )


class DeactivatedSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(source="person.username")
    handed_over = serializers.SerializerMethodField()
    keys = serializers.IntegerField()
    tokens = serializers.IntegerField()
    sessions = serializers.IntegerField()

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_handed_over(self, ended: Any) -> list[str]:
        return [duty.key for duty in ended.moved]


class TeamSerializer(serializers.ModelSerializer[Team]):
    people = serializers.IntegerField(help_text="How many members are persons.")
    service_accounts = serializers.IntegerField(source="machines")

    class Meta:
        model = Team
        fields: ClassVar[list[str]] = ["slug", "name", "description", "people", "service_accounts"]


class MemberSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(source="membership.user.username")
    display_name = serializers.CharField(source="membership.user.display_name")
    active = serializers.BooleanField(source="membership.user.is_active")
    roles = RolesField(TEAM_ROLES, source="membership.roles")
    since = serializers.DateTimeField(source="membership.since")


class TeamDetailSerializer(TeamSerializer):
    members = MemberSerializer(many=True, source="members_shown")

    class Meta(TeamSerializer.Meta):
        fields: ClassVar[list[str]] = [*TeamSerializer.Meta.fields, "members"]


class CreateTeamSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    slug = serializers.SlugField(max_length=64, required=False, allow_blank=True, default="")
    description = serializers.CharField(
        max_length=200, required=False, allow_blank=True, default=""
    )


class ChangeTeamSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80, required=False)
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)


class SetMemberSerializer(serializers.Serializer[Any]):
    roles = RolesField(TEAM_ROLES, required=False, default=list)
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    state = serializers.ChoiceField(["open", "accepted", "expired", "revoked"])
    invited_by = serializers.CharField(source="invited_by.username")
    teams = MembershipSerializer(many=True)

    class Meta:
        model = Invitation
        fields: ClassVar[list[str]] = [
            "id",
            "state",
            "username",
            "display_name",
            "email",
            "roles",
            "teams",
            "invited_by",
            "created_at",
            "expires_at",
            "accepted_at",
            "revoked_at",
        ]


class NewInvitationSerializer(InvitationSerializer):
    link = serializers.CharField(help_text="Given this once.")
    mailed = serializers.BooleanField()
    mail_fault = serializers.CharField(allow_blank=True)

    class Meta(InvitationSerializer.Meta):
        fields: ClassVar[list[str]] = [
            *InvitationSerializer.Meta.fields,
            "link",
            "mailed",
            "mail_fault",
        ]


class InviteSerializer(serializers.Serializer[Any]):
    email = serializers.EmailField()
    display_name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default=""
    )
    username = serializers.SlugField(max_length=64, required=False, allow_blank=True, default="")
    roles = RolesField(required=False, default=list)
    teams = MembershipSerializer(many=True, required=False, default=list)
    days = serializers.IntegerField(
        min_value=FEWEST_DAYS, max_value=MOST_DAYS, required=False, default=USUAL_DAYS
    )


class ServiceAccountSerializer(serializers.ModelSerializer[User]):
    active = serializers.BooleanField(source="is_active")
    team = serializers.SerializerMethodField()
    roles = serializers.SerializerMethodField()

    class Meta:
        model = User
        fields: ClassVar[list[str]] = ["username", "display_name", "active", "team", "roles"]

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_team(self, account: User) -> str | None:
        return next((one.team.slug for one in account.memberships.all()), None)

    @extend_schema_field(RolesField(MACHINE_ROLES))
    def get_roles(self, account: User) -> list[str]:
        return next((one.roles for one in account.memberships.all()), [])


class CreateServiceAccountSerializer(serializers.Serializer[Any]):
    username = serializers.SlugField(max_length=64)
    display_name = serializers.CharField(
        max_length=120, required=False, allow_blank=True, default=""
    )
    team = serializers.SlugField(max_length=64)
    roles = RolesField(MACHINE_ROLES, required=False, default=list)


class ChangeServiceAccountSerializer(serializers.Serializer[Any]):
    display_name = serializers.CharField(max_length=120, required=False, allow_blank=True)
    team = serializers.SlugField(max_length=64, required=False)
    roles = RolesField(MACHINE_ROLES, required=False)
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class CreateAccountTokenSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(child=serializers.ChoiceField(MACHINE_SCOPES), min_length=1)
    days = serializers.IntegerField(min_value=1, max_value=365, required=False, allow_null=True)


class WorkloadSerializer(serializers.ModelSerializer[WorkloadIdentity]):
    class Meta:
        model = WorkloadIdentity
        fields: ClassVar[list[str]] = [
            "id",
            "name",
            "issuer",
            "audience",
            "claims",
            "scopes",
            "created_at",
            "last_used_at",
        ]
        read_only_fields: ClassVar[list[str]] = ["id", "created_at", "last_used_at"]


class AddWorkloadSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=80)
    issuer = serializers.CharField(max_length=300)
    audience = serializers.CharField(max_length=200)
    claims = serializers.DictField(
        child=serializers.CharField(max_length=300),
        help_text="`sub` is needed; a * at the very end of a value stands for any end.",
    )
    scopes = serializers.ListField(child=serializers.ChoiceField(MACHINE_SCOPES), min_length=1)


class ExchangeSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(max_length=16 * 1024, help_text="The platform's own token (JWT).")
    account = serializers.CharField(
        max_length=64,
        required=False,
        allow_blank=True,
        default="",
        help_text="Which service account is meant, where the token fits several.",
    )


class ExchangedSerializer(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="The clear text, valid for 15 minutes.")
    account = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    expires_at = serializers.DateTimeField()


class OwnedTokenSerializer(TokenSerializer):
    owner = serializers.CharField(source="user.username")

    class Meta(TokenSerializer.Meta):
        fields: ClassVar[list[str]] = [*TokenSerializer.Meta.fields, "owner"]
