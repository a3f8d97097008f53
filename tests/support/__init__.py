"""What several tests share: small models, made-up runs, statistical tolerances."""
