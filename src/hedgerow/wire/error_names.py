"""What upstreams call their errors, in one spelling (`NoCapacity` is `no_capacity`), and what each name means.

From the documentation and the public bug reports of OpenAI, Azure, Anthropic, Google, Bedrock, OpenRouter, xAI, Groq,
Moonshot, DeepSeek, Alibaba, vLLM, llama.cpp, text-generation-inference and LiteLLM.
"""

from __future__ import annotations

from hedgerow.events import FailureClass

CLASS_BY_NAME = {
    name: kind
    for kind, names in {
        FailureClass.FATAL_REQUEST: (
            "context_length_exceeded context_window_exceeded exceed_context_size_error max_tokens_exceeded "
            "token_limit_exceeded string_too_long string_above_max_length request_too_large "
            "previous_response_not_found conversation_not_found file_not_found image_file_not_found"
        ),
        FailureClass.CONTENT_POLICY: (
            "content_filter content_policy content_policy_violation responsible_ai_policy_violation invalid_prompt "
            "image_content_policy_violation bio_policy cyber_policy misalignment_policy_violation moderation_blocked "
            "data_inspection_failed"
        ),
        FailureClass.QUOTA_EXHAUSTED: (
            "insufficient_quota insufficient_balance insufficient_credits usage_limit_reached billing_error "
            "billing_not_active billing_disabled billing_hard_limit_reached credit_balance_exhausted "
            "organization_spend_limit_exceeded project_spend_limit_exceeded organization_usage_limit_exceeded "
            "enforced_spend_limit_reached contract_spend_limit_reached exceeded_current_quota_error "
            "service_quota_exceeded_exception payment_required budget_exceeded arrearage"
        ),
        FailureClass.UPSTREAM_AUTH: (
            "invalid_api_key api_key_invalid incorrect_api_key_error failed_precondition data_residency_mismatch "
            "unsupported_country_region_territory expired_token_exception unrecognized_client_exception"
        ),
        FailureClass.UPSTREAM_MISSING_MODEL: "model_not_found deployment_not_found",
        FailureClass.RATE_LIMITED: "slow_down throttling_exception too_many_requests_exception",
        FailureClass.OVERLOADED: (
            "overloaded overloaded_error server_is_overloaded engine_overloaded engine_overloaded_error "
            "provider_overloaded unavailable unavailable_error no_capacity capacity_exceeded model_not_ready_exception"
        ),
    }.items()
    for name in names.split()
}
"""Names that say more than the status does. `failed_precondition` is Google's for a region or account not served."""

_STATUS_OF_CLASS = {
    FailureClass.FATAL_REQUEST: 400,
    FailureClass.CONTENT_POLICY: 400,
    FailureClass.QUOTA_EXHAUSTED: 429,
    FailureClass.UPSTREAM_AUTH: 401,
    FailureClass.UPSTREAM_MISSING_MODEL: 404,
    FailureClass.RATE_LIMITED: 429,
    FailureClass.OVERLOADED: 503,
}

STATUS_BY_NAME = {name: _STATUS_OF_CLASS[kind] for name, kind in CLASS_BY_NAME.items()} | {
    name: status
    for status, names in {
        400: (
            "invalid_request invalid_request_error bad_request bad_request_error invalid_argument validation "
            "validation_error validation_exception invalid_image invalid_image_format invalid_base64_image "
            "invalid_image_url invalid_image_mode image_too_large image_too_small image_file_too_large "
            "image_parse_error empty_image_file failed_to_download_image unsupported_image_media_type "
            "api_key_invalid failed_precondition arrearage budget_exceeded service_quota_exceeded_exception"
        ),
        401: "authentication_error invalid_authentication_error unauthenticated unauthorized",
        402: "billing_error payment_required insufficient_balance insufficient_credits",
        403: (
            "permission_error permission_denied permission_denied_error access_denied_exception billing_disabled "
            "data_residency_mismatch unsupported_country_region_territory expired_token_exception "
            "unrecognized_client_exception"
        ),
        404: (
            "not_found not_found_error resource_not_found_error resource_not_found_exception "
            "previous_response_not_found conversation_not_found file_not_found"
        ),
        408: "timeout request_timeout model_timeout_exception",
        409: "conflict_error",
        413: "request_too_large",
        422: "unprocessable_entity unprocessable_entity_error",
        424: "model_error_exception model_stream_error_exception",
        429: (
            "rate_limit_error rate_limit_exceeded rate_limit_reached_error rate_limited too_many_requests "
            "resource_exhausted engine_overloaded_error model_not_ready_exception"
        ),
        498: "capacity_exceeded",
        500: (
            "server_error internal_server_error internal_server_exception internal_error api_error internal generation"
        ),
        502: "provider_unavailable bad_gateway",
        503: "service_unavailable service_unavailable_error service_unavailable_exception",
        504: "timeout_error gateway_timeout deadline_exceeded vector_store_timeout",
        529: "overloaded_error",
    }.items()
    for name in names.split()
}
"""What an error inside a 200 means when it carries no number."""

CLASS_BY_STATUS = {
    401: FailureClass.UPSTREAM_AUTH,
    402: FailureClass.QUOTA_EXHAUSTED,  # payment required: prepaid balance used up
    403: FailureClass.UPSTREAM_AUTH,
    404: FailureClass.UPSTREAM_MISSING_MODEL,
    405: FailureClass.UPSTREAM_MISSING_MODEL,
    407: FailureClass.UPSTREAM_AUTH,
    408: FailureClass.SERVER_ERROR,
    409: FailureClass.SERVER_ERROR,
    410: FailureClass.UPSTREAM_MISSING_MODEL,
    421: FailureClass.SERVER_ERROR,  # misdirected: another connection may reach the right server
    424: FailureClass.SERVER_ERROR,  # failed dependency: the model behind the endpoint broke
    425: FailureClass.SERVER_ERROR,  # too early: says itself that a repeat is welcome
    429: FailureClass.RATE_LIMITED,
    498: FailureClass.OVERLOADED,  # a flex tier's "capacity exceeded"
    499: FailureClass.SERVER_ERROR,  # a proxy there says its client left; we had not
    529: FailureClass.OVERLOADED,
}
"""Others: 5xx server_error, 4xx fatal_request."""

NAME_BY_PROSE = (
    ("Overloaded", "overloaded_error"),  # sent with type api_error
    ("Your credit balance is too low", "credit_balance_exhausted"),  # sent as 400 invalid_request_error
    ("You have reached your specified API usage limits", "usage_limit_reached"),  # likewise
    ("You have reached your specified workspace API usage limits", "usage_limit_reached"),
    ("Content violates usage guidelines", "content_policy_violation"),  # sent as 403 permission-denied
)
"""Starts of messages that are the only thing to tell some errors by. Nothing of a prompt can stand there."""
