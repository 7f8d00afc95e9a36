# Haloport::haloport, the library for C and C++. If the project has the language Fortran, Haloport::fortran, the module `haloport`,
# which is compiled with the project's compiler. A file of it is in C, so C is enabled, too.
get_filename_component(Haloport_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Haloport::haloport)
    add_library(Haloport::haloport SHARED IMPORTED)
    set_target_properties(Haloport::haloport PROPERTIES
        IMPORTED_LOCATION "${Haloport_PREFIX}/lib/libhaloport.so.1"
        IMPORTED_SONAME "libhaloport.so.1"
        INTERFACE_INCLUDE_DIRECTORIES "${Haloport_PREFIX}/include")
endif()

get_property(Haloport_LANGUAGES GLOBAL PROPERTY ENABLED_LANGUAGES)
if("Fortran" IN_LIST Haloport_LANGUAGES AND NOT TARGET Haloport::fortran)
    enable_language(C)
    add_library(haloport_fortran STATIC EXCLUDE_FROM_ALL
        "${Haloport_PREFIX}/share/haloport/fortran/haloport.f90"
        "${Haloport_PREFIX}/share/haloport/fortran/haloport_fortran.c")
    set_target_properties(haloport_fortran PROPERTIES
        Fortran_MODULE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/haloport_fortran"
        POSITION_INDEPENDENT_CODE ON)
    target_include_directories(haloport_fortran PUBLIC "${CMAKE_CURRENT_BINARY_DIR}/haloport_fortran")
    target_link_libraries(haloport_fortran PUBLIC Haloport::haloport)
    # Flang's header for descriptors of arrays, which its C compiler does not look for.
    get_filename_component(haloport_flang "${CMAKE_Fortran_COMPILER}" REALPATH)
    get_filename_component(haloport_flang "${haloport_flang}/../../include/flang" ABSOLUTE)
    if(CMAKE_Fortran_COMPILER_ID STREQUAL "LLVMFlang" AND EXISTS "${haloport_flang}/ISO_Fortran_binding.h")
        target_include_directories(haloport_fortran BEFORE PRIVATE "${haloport_flang}")
    endif()
    add_library(Haloport::fortran ALIAS haloport_fortran)
endif()
