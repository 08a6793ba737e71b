# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT, a .cpp that defines rlx::embedded_extensions(): every file below FOLDER, by its family (the folder's own folder) and
# path there.
include(${CMAKE_CURRENT_LIST_DIR}/embed_literal.cmake)
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT files)
set(text "#include \"compiler/extension/extension_files.h\"\nnamespace rlx {\nconst std::map<std::string, std::map<std::string, std::string>>& embedded_extensions() {\n  static const std::map<std::string, std::map<std::string, std::string>> files = [] {\n    std::map<std::string, std::map<std::string, std::string>> all;\n")
foreach(path IN LISTS files)
  string(REGEX MATCH "^[^/]+" family ${path})
  string(REGEX REPLACE "^[^/]+/" "" name ${path})
  file(READ ${FOLDER}/${path} content)
  string(APPEND text "    all[\"${family}\"][\"${name}\"] =")
  rlx_append_literal(text content "        ")
  string(APPEND text ";\n")
endforeach()
string(APPEND text "    return all;\n  }();\n  return files;\n}\n}  // namespace rlx\n")
file(WRITE ${OUTPUT} "${text}")
