"""Who may call: authenticators for servers, credentials for clients, what each caller may do. No transport is known here."""
