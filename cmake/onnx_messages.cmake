# kvern_onnx_messages(target): adds what protoc makes of onnx_messages.proto to the target, which alone
# sees it, as <onnx_messages.pb.h>. The static lite runtime is linked, so nothing is needed to run.
function(kvern_onnx_messages target)
  find_program(KVERN_PROTOC protoc)
  if(NOT KVERN_PROTOC)
    message(FATAL_ERROR "protoc is missing: install protobuf-compiler and libprotobuf-dev "
                        "(scripts/install_deps does)")
  endif()
  set(folder ${PROJECT_SOURCE_DIR}/src/compile/import/onnx)
  set(made ${PROJECT_BINARY_DIR}/generated/onnx)
  file(MAKE_DIRECTORY ${made})
  add_custom_command(
    OUTPUT ${made}/onnx_messages.pb.cc ${made}/onnx_messages.pb.h
    COMMAND ${KVERN_PROTOC} --proto_path=${folder} --cpp_out=${made} onnx_messages.proto
    DEPENDS ${folder}/onnx_messages.proto
    VERBATIM)
  target_sources(${target} PRIVATE ${made}/onnx_messages.pb.cc ${made}/onnx_messages.pb.h)
  # Not ours: no warnings of ours, and system headers keep theirs.
  set_source_files_properties(${made}/onnx_messages.pb.cc PROPERTIES COMPILE_OPTIONS "-w"
                                                                     SKIP_PRECOMPILE_HEADERS ON)
  target_include_directories(${target} SYSTEM PRIVATE ${made})
endfunction()
