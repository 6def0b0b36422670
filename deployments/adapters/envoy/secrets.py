"""TLS in Envoy's words: the certificate comes by SDS, so that a new one drains no connection."""

from __future__ import annotations

from typing import Any

from deployments.rules.access.caller_directory import Certificate

JSON = dict[str, Any]

_TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"


def certificate_name(environment: str) -> str:
    """Name of the secret that holds the certificate of an environment's listener."""
    return f"environment/{environment}/certificate"


def certificate_config(certificate: Certificate) -> JSON:
    """The Secret message, as JSON."""
    return {
        "name": certificate_name(certificate.environment),
        "tls_certificate": {
            "certificate_chain": {"inline_string": certificate.chain},
            "private_key": {"inline_string": certificate.private_key},
        },
    }


def tls_socket(environment: str) -> JSON:
    """The transport socket of a listener that speaks TLS 1.2 and later."""
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{_TLS}.DownstreamTlsContext",
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificate_sds_secret_configs": [
                    {
                        "name": certificate_name(environment),
                        "sds_config": {"ads": {}, "resource_api_version": "V3"},
                    }
                ],
            },
        },
    }
