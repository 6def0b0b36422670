"""Django settings: everything that an installation decides comes from console.env."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from console import env

BASE_DIR = Path(__file__).resolve().parent.parent

try:
    CONFIG = env.load()
except env.ConfigError as error:
    # One clear line instead of a traceback: the person who starts us has to read it.
    if sys.argv[0].endswith(("manage.py", "celery", "uvicorn")):
        sys.exit(f"covenant: {error}")
    raise ImproperlyConfigured(str(error)) from error

SECRET_KEY = CONFIG.secret_key
DEBUG = CONFIG.debug
ALLOWED_HOSTS = list(CONFIG.allowed_hosts)
CSRF_TRUSTED_ORIGINS = [CONFIG.base_url]
BEHIND_TLS = CONFIG.base_url.startswith("https://")

INSTALLED_APPS = [
    "console",
    "models_registry",
    "deployments",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.forms",
    "django.contrib.postgres",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "rest_framework",
    "drf_spectacular",
    "django_linear_migrations",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "console.middleware.static_files",
    "console.middleware.request_context",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "console.audit_doors.audit_doors",
    "console.middleware.StrongSessions",
    "console.middleware.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "console.middleware.explain_errors",
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "console.context.person",
            ],
            "builtins": ["console.templatetags.console_ui"],
        },
    }
]

DATABASES = {
    "default": {
        **env.parse_database_url(CONFIG.database_url),
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": False,
    }
}
DATABASES["default"]["OPTIONS"] = {
    "connect_timeout": 3,
    **DATABASES["default"]["OPTIONS"],  # type: ignore[dict-item]
    # Requests run each in a thread of their own under ASGI, so connections are pooled, not kept.
    # A short time to reconnect: after a restart of the database the next request tries anew,
    # where a long one would wait out its growing pauses.
    "pool": {
        "min_size": 1,
        "max_size": 20,
        "timeout": 3,
        "reconnect_timeout": 2,
        "max_lifetime": 600,
        "max_idle": 60,
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = CONFIG.redis_url
CACHES = {
    # Login throttling and the like; losing it loses no fact.
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
}

CSRF_FAILURE_VIEW = "console.views.errors.csrf_failed"

AUTH_USER_MODEL = "console.User"
# Says which models do not exist for a person: the floor knows models by name alone.
MODEL_VISIBILITY = "models_registry.selectors.visibility"
TEAM_OF_ADDRESS = [
    "models_registry.selectors.visibility.team_of_address",
    "deployments.selectors.visibility.team_of_address",
]
PAGE_ACTS = [
    "console.rules.doors.PAGE_ACTS",
    "models_registry.rules.doors.PAGE_ACTS",
    "deployments.rules.doors.PAGE_ACTS",
]
LOGIN_URL = "console:sign-in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "console:sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "console" / "locale"]
LANGUAGE_COOKIE_SAMESITE = "Lax"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
_plotly = find_spec("plotly")
STATICFILES_DIRS: list[Path | tuple[str, Path]] = [BASE_DIR / "static"]
if _plotly and _plotly.origin:
    STATICFILES_DIRS.append(("vendor", Path(_plotly.origin).parent / "package_data"))
# Served straight from the source folders: no collect step between a clone and a page, so no
# STATIC_ROOT either.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = CONFIG.debug

if isinstance(CONFIG.storage, env.S3Storage):
    STORAGES = {
        "default": {
            "BACKEND": "storages.backends.s3.S3Storage",
            "OPTIONS": {"bucket_name": CONFIG.storage.bucket, "location": CONFIG.storage.prefix},
        },
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
else:
    STORAGES = {
        "default": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": CONFIG.storage.path, "file_permissions_mode": 0o640},
        },
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
UPLOAD_FOLDER = CONFIG.home / "uploads"
# What of the audit trail the database must not be able to change: checkpoints and archives.
AUDIT_FOLDER = CONFIG.home / "audit"
AUDIT_RETENTION_MONTHS = CONFIG.audit_retention_months
PRIVATE_ADDRESSES = CONFIG.private_addresses
MAX_UPLOAD_BYTES = 64 * 1024**3
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024**2

SESSION_ENGINE = "console.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
SECURE_SSL_REDIRECT = BEHIND_TLS
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = BEHIND_TLS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:", "blob:"],
        "connect-src": ["'self'"],
        "worker-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "console.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["console.api.permissions.MayAct"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.api.parsers.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "console.api.pagination.RecentFirstPagination",
    "PAGE_SIZE": 50,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "console.api.problems.problem_response",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Covenant",
    "DESCRIPTION": "Models, contracts, releases and traffic on NVIDIA Triton.",
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "console.api.schema.answer_problems",
    ],
    "ENUM_NAME_OVERRIDES": {
        "RoleEnum": "console.models.Role",
        "JobStateEnum": "console.models.JobState",
        "UploadStateEnum": "models_registry.models.UploadState",
        "VersionStateEnum": "models_registry.models.VersionState",
        "ContractStateEnum": "models_registry.models.ContractState",
        "ReleaseStateEnum": "models_registry.models.ReleaseState",
        "NodeStateEnum": "deployments.models.NodeState",
        "PlacementStateEnum": "deployments.models.PlacementState",
        "AgreementStateEnum": "deployments.models.AgreementState",
        "DiagnosisStateEnum": "deployments.models.DiagnosisState",
        "FindingVerdictEnum": ["good", "unknown", "warn", "bad"],
        "ChannelKindEnum": "deployments.models.ChannelKind",
        "DeliveryReasonEnum": "deployments.models.DeliveryReason",
        "DeliveryStateEnum": "deployments.models.DeliveryState",
        "OnCallCoversEnum": "deployments.models.Covers",
        "TellPeopleEnum": "deployments.models.TellPeople",
        "EscalationTargetEnum": "deployments.models.StepTarget",
        "AlertSeverityEnum": "deployments.models.AlertSeverity",
        "AlertStateEnum": "deployments.models.AlertState",
        "IncidentStateEnum": "deployments.models.IncidentState",
        "IncidentSeverityEnum": "deployments.models.IncidentSeverity",
        "RolloutStateEnum": "deployments.models.RolloutState",
        "RolloutStepStateEnum": ["done", "current", "todo"],
        "ExperimentStateEnum": "deployments.models.ExperimentState",
        "RevocationKindEnum": "console.models.RevocationKind",
        "SinkKindEnum": "console.models.SinkKind",
        "InvitationStateEnum": ["open", "accepted", "expired", "revoked"],
        "MachineScopeEnum": ["read", "write", "operate"],
        "GlobalRoleEnum": ["data_scientist", "sre", "business_owner", "platform_admin", "viewer"],
        "TeamRoleEnum": ["data_scientist", "sre", "business_owner", "viewer"],
        "MachineRoleEnum": ["data_scientist", "sre", "viewer"],
    },
}

TOKEN_LIFETIME_DAYS = 90
# None where no mail is sent: links are then handed over by whoever made them.
MAIL_SERVER = CONFIG.email

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "httpx": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
