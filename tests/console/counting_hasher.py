"""A quick password hasher that counts how often it worked: what an attempt costs."""

from __future__ import annotations

from django.contrib.auth.hashers import MD5PasswordHasher


class CountingHasher(MD5PasswordHasher):
    times = 0

    def encode(self, password: str, salt: str) -> str:
        CountingHasher.times += 1
        return super().encode(password, salt)
