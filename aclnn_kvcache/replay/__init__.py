# SPDX-License-Identifier: Apache-2.0
"""What is done with a bundle: make the call again, check it by the rules, write a program that makes it."""
