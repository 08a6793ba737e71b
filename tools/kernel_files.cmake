# SPDX-License-Identifier: Apache-2.0
# rlx_kernel_files(ROOT OUT): every kernel source of the tree at ROOT, by path from it: by the extensions of all targets, and of the
# text that they share.
function(rlx_kernel_files root out)
  file(STRINGS ${root}/schema/targets.def rows REGEX "^RLX_TARGET")
  string(REGEX MATCHALL "\"[.][a-z]+\"" extensions "${rows}")
  set(patterns)
  foreach(extension IN LISTS extensions ITEMS ".kernel" ".inc")
    string(REPLACE "\"" "" extension ${extension})
    list(APPEND patterns ${root}/shaders/*${extension} ${root}/cuda_kernels/*${extension})
  endforeach()
  set(watch)
  if(NOT CMAKE_SCRIPT_MODE_FILE)
    set(watch CONFIGURE_DEPENDS)
  endif()
  file(GLOB_RECURSE files ${watch} RELATIVE ${root} ${patterns})
  set(${out} ${files} schema/kernel_params.h PARENT_SCOPE)
endfunction()
