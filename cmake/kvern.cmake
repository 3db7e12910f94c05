# Flags and the three ways to declare something: a module, a test binary, an application.

find_package(Threads REQUIRED)

# Where ccache is installed it is used, with paths relative to the checkout, so that clones share it.
find_program(KVERN_CCACHE ccache)
if(KVERN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 ${KVERN_CCACHE})
endif()

# Headers that most files read are compiled once. Not beside ccache, which would find nothing again:
# two builds of the same precompiled header differ.
set(KVERN_PCH_DEFAULT ON)
if(KVERN_CCACHE OR CMAKE_CXX_COMPILER_LAUNCHER)
  set(KVERN_PCH_DEFAULT OFF)
endif()
option(KVERN_PCH "precompile the headers of the library, the program and the tests"
       ${KVERN_PCH_DEFAULT})

# kvern_precompile(target owner HEADERS...): the owner compiles them, every other target takes its.
function(kvern_precompile target owner)
  if(NOT KVERN_PCH)
    return()
  endif()
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

add_library(kvern_flags INTERFACE)
target_compile_features(kvern_flags INTERFACE cxx_std_20)
target_compile_options(kvern_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -fno-math-errno
                                             -ffp-contract=off)
target_include_directories(kvern_flags INTERFACE ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(kvern_flags INTERFACE Threads::Threads)
# fmt is compiled once, in src/base/fmt.cpp; nothing links the shared library.
if(KVERN_SANITIZE)
  target_compile_options(kvern_flags INTERFACE -fsanitize=${KVERN_SANITIZE} -fno-omit-frame-pointer
                                               -fno-sanitize-recover=all)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Half of the compile time (g++ 12: 5.3 to 2.7 s for a parser). A null is a SEGV that
    # AddressSanitizer reports; the fuzz build, by clang, keeps all three.
    target_compile_options(kvern_flags INTERFACE -fno-sanitize=null,vptr,alignment)
  endif()
  target_link_options(kvern_flags INTERFACE -fsanitize=${KVERN_SANITIZE})
endif()

# kvern_module(run/kv DEPS base): a static library `kvern_run_kv` of every .cpp in src/run/kv (and,
# with RECURSE, below it). scripts/check_layers.py reads these lines and holds every #include to them.
function(kvern_module path)
  cmake_parse_arguments(ARG "RECURSE" "" "DEPS;LIBS" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  set(mode GLOB)
  if(ARG_RECURSE)
    set(mode GLOB_RECURSE)
  endif()
  file(${mode} sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${path}/*.cpp)
  if(sources)
    add_library(kvern_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(kvern_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(kvern_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(kvern_${name} ${scope} kvern_flags)
  foreach(dep ${ARG_DEPS})
    string(REPLACE "/" "_" dep_name ${dep})
    target_link_libraries(kvern_${name} ${scope} kvern_${dep_name})
  endforeach()
  target_link_libraries(kvern_${name} ${scope} ${ARG_LIBS})
  if(sources)
    kvern_precompile(kvern_${name} kvern_base <algorithm> <memory> <string> <unordered_map> <vector>
                     <fmt/format.h>)
  endif()
endfunction()

# kvern_test(run/kv): the gtest binary `run_kv_test` of every .cpp in tests/run/kv, and of SOURCES that
# several binaries share. Tests whose suite
# name starts with `Slow` get the label slow, `Gpu` gpu, `E2e` e2e; all others are fast.
function(kvern_test path)
  cmake_parse_arguments(ARG "" "" "LIBS;SOURCES" ${ARGN})
  string(REPLACE "/" "_" name ${path})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${path}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name}_test ${sources} ${ARG_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name}_test PRIVATE
    KVERN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests"
    KVERN_CLI_PATH="${PROJECT_BINARY_DIR}/kvern")
  target_link_libraries(${name}_test PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  # What is measured and hardened is the library; its tests are half of all that is compiled (g++ 12,
  # seconds for a test of tokenizers: 9.0 at -O3, 6.1 at -O1; sanitized 12.8, and 7 at -O0).
  if(KVERN_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name}_test PRIVATE -O0)
  else()
    target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  kvern_precompile(${name}_test base_test <gmock/gmock.h> <gtest/gtest.h>)
  foreach(kind fast slow gpu e2e)
    if(kind STREQUAL "fast")
      set(filter "-Slow*:Gpu*:E2e*")
    elseif(kind STREQUAL "slow")
      set(filter "Slow*")
    elseif(kind STREQUAL "gpu")
      set(filter "Gpu*")
    else()
      set(filter "E2e*")
    endif()
    add_test(NAME ${name}.${kind} COMMAND ${name}_test --gtest_filter=${filter} --gtest_brief=1)
    set_tests_properties(${name}.${kind} PROPERTIES LABELS ${kind})
  endforeach()
endfunction()
