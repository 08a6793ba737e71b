# SPDX-License-Identifier: Apache-2.0
# librlx as it is installed: librlx.a with everything in it but libc and libstdc++, librlx.so that exports rlx_* only and
# carries libstdc++ itself, the headers, a CMake package and pkg-config files; beside either of them librlx_text.a.
include(CMakePackageConfigHelpers)

get_property(parts GLOBAL PROPERTY rlx_runtime_parts)
foreach(part IN LISTS parts)
  list(APPEND objects $<TARGET_OBJECTS:${part}>)
endforeach()

add_library(rlx_static STATIC ${objects})
add_library(rlx_shared SHARED ${objects})
set(version_script ${CMAKE_CURRENT_SOURCE_DIR}/cmake/exports.map)
target_link_options(rlx_shared PRIVATE -Wl,--gc-sections -Wl,--version-script=${version_script})
if(NOT RLX_SANITIZE)  # clang leaves the sanitizers' own symbols to the program
  target_link_options(rlx_shared PRIVATE -Wl,-z,defs -static-libstdc++ -static-libgcc)
endif()
set_target_properties(rlx_shared PROPERTIES LINK_DEPENDS ${version_script} VERSION ${PROJECT_VERSION}
                                            SOVERSION ${PROJECT_VERSION_MAJOR})
foreach(library rlx_static rlx_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME rlx LINKER_LANGUAGE CXX)
  target_link_libraries(${library} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endforeach()

# What it takes of the base is in it, as librlx.so shows none of it. In librlx.a stand the same objects: one of the two is linked.
add_library(rlx_text_static STATIC $<TARGET_OBJECTS:rlx_text> $<TARGET_OBJECTS:rlx_base>)
set_target_properties(rlx_text_static PROPERTIES OUTPUT_NAME rlx_text LINKER_LANGUAGE CXX
                                                 ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/installed)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rlx)
configure_package_config_file(cmake/rlxConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/rlxConfig.cmake
                              INSTALL_DESTINATION ${package_dir}
                              PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/rlxConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# The folder of the .pc file finds the prefix, so that an installed tree can be moved.
file(RELATIVE_PATH RLX_PREFIX_FROM_PKGCONFIG /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/rlx.pc.in ${CMAKE_CURRENT_BINARY_DIR}/rlx.pc @ONLY)
configure_file(cmake/rlx_text.pc.in ${CMAKE_CURRENT_BINARY_DIR}/rlx_text.pc @ONLY)

# Components are the Debian packages of tools/debian_packages.cmake: librlx what programs need, librlx-dev what building them needs.
install(TARGETS rlx_static rlx_shared rlx_text_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT librlx-dev
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT librlx NAMELINK_COMPONENT librlx-dev)
install(FILES include/rlx.h include/rlx.hpp include/rlx_text.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT librlx-dev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rlxConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/rlxConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT librlx-dev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rlx.pc ${CMAKE_CURRENT_BINARY_DIR}/rlx_text.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT librlx-dev)
