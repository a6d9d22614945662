# SPDX-License-Identifier: Apache-2.0
"""Parameter rules of the operators, as data and pure functions. They return findings; operators raise them."""
