# SPDX-License-Identifier: Apache-2.0
"""ddprun is a program, not a module: docs/frameworks.md says what is here."""
