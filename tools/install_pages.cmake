# SPDX-License-Identifier: Apache-2.0
# rlx_install_pages(PROGRAM): its man page and its completions for bash, zsh and fish, made by the program itself after it was linked.
function(rlx_install_pages program)
  set(folder ${PROJECT_BINARY_DIR}/pages)
  set(binary $<TARGET_FILE:${program}>)
  add_custom_command(TARGET ${program} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${binary} --man > ${folder}/${program}.1
    COMMAND ${binary} --completion bash > ${folder}/${program}.bash
    COMMAND ${binary} --completion zsh > ${folder}/_${program}
    COMMAND ${binary} --completion fish > ${folder}/${program}.fish
    VERBATIM)
  install(FILES ${folder}/${program}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT rlx-tools)
  install(FILES ${folder}/${program}.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program}
          COMPONENT rlx-tools)
  install(FILES ${folder}/_${program} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT rlx-tools)
  install(FILES ${folder}/${program}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT rlx-tools)
endfunction()
