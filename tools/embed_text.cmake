# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a header that defines the constant NAME: the text of INPUT.
file(READ ${INPUT} content)
file(WRITE ${OUTPUT} "#pragma once\nnamespace rlx {\ninline constexpr char ${NAME}[] = R\"RLXTEXT(${content})RLXTEXT\";\n}  // namespace rlx\n")
