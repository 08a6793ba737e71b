# SPDX-License-Identifier: Apache-2.0
# rlx_append_literal(TEXT CONTENT INDENT): appends to the variable named TEXT the C++ string literal of the variable named CONTENT, in
# pieces of 8000 characters, as the length of literals is limited; each on a line behind INDENT.
function(rlx_append_literal rlx_text rlx_content rlx_indent)
  set(rlx_literal "")
  string(LENGTH "${${rlx_content}}" rlx_length)
  set(rlx_position 0)
  while(rlx_position LESS rlx_length)
    string(SUBSTRING "${${rlx_content}}" ${rlx_position} 8000 rlx_piece)
    string(APPEND rlx_literal "\n${rlx_indent}R\"RLXSRC(${rlx_piece})RLXSRC\"")
    math(EXPR rlx_position "${rlx_position} + 8000")
  endwhile()
  if(rlx_length EQUAL 0)
    set(rlx_literal " \"\"")
  endif()
  set(${rlx_text} "${${rlx_text}}${rlx_literal}" PARENT_SCOPE)
endfunction()
