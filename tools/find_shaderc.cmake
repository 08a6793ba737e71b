# SPDX-License-Identifier: Apache-2.0
# Defines the target rlx_shaderc: shaderc with everything that it needs to link. Debian 12 ships a libshaderc.so that leaves
# glslang's symbols undefined, so there the static glslang and SPIRV-Tools are linked beside it.
include(CheckCXXSourceCompiles)

add_library(rlx_shaderc INTERFACE IMPORTED GLOBAL)
find_library(RLX_SHADERC_SHARED NAMES shaderc_shared shaderc)
find_library(RLX_SHADERC_STATIC NAMES shaderc_combined)
mark_as_advanced(RLX_SHADERC_SHARED RLX_SHADERC_STATIC)
set(shaderc_glslang)
foreach(name glslang MachineIndependent OGLCompiler OSDependent GenericCodeGen SPIRV SPIRV-Tools-opt SPIRV-Tools)
  find_library(RLX_GLSLANG_${name} NAMES ${name})
  mark_as_advanced(RLX_GLSLANG_${name})
  if(RLX_GLSLANG_${name})
    list(APPEND shaderc_glslang ${RLX_GLSLANG_${name}})
  endif()
endforeach()

set(shaderc_probe "#include <shaderc/shaderc.hpp>
  int main() { return shaderc::Compiler().CompileGlslToSpv(\"\", 0, shaderc_compute_shader, \"x\", {}).GetNumErrors() == 0; }")
set(CMAKE_REQUIRED_LIBRARIES ${RLX_SHADERC_SHARED} Threads::Threads)
check_cxx_source_compiles("${shaderc_probe}" RLX_SHADERC_SHARED_LINKS)
if(RLX_SHADERC_SHARED_LINKS)
  target_link_libraries(rlx_shaderc INTERFACE ${RLX_SHADERC_SHARED})
else()
  set(static_group -Wl,--start-group ${RLX_SHADERC_STATIC} ${shaderc_glslang} -Wl,--end-group Threads::Threads)
  set(CMAKE_REQUIRED_LIBRARIES ${static_group})
  check_cxx_source_compiles("${shaderc_probe}" RLX_SHADERC_STATIC_LINKS)
  if(NOT RLX_SHADERC_STATIC_LINKS)
    message(FATAL_ERROR "shaderc does not link; on Debian and Ubuntu install libshaderc-dev, glslang-dev and spirv-tools")
  endif()
  target_link_libraries(rlx_shaderc INTERFACE ${static_group})
endif()
unset(CMAKE_REQUIRED_LIBRARIES)

# The version is part of the key of cached code.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(RLX_SHADERC_MODULE QUIET shaderc)
endif()
target_compile_definitions(rlx_shaderc INTERFACE RLX_SHADERC_VERSION="${RLX_SHADERC_MODULE_VERSION}")
set(SHADERC_LIBRARY rlx_shaderc CACHE INTERNAL "Target that carries shaderc")
