"""The gateway: any OpenAI client changes its base URL, and its slow requests are hedged."""
