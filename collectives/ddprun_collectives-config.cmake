# find_package(ddprun_collectives) gives the targets ddprun::collectives, an archive, and ddprun::collectives_shared.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/ddprun_collectives-targets.cmake)
# So that programs in C, too, are linked with what C++ needs.
set_property(TARGET ddprun::collectives PROPERTY IMPORTED_LINK_INTERFACE_LANGUAGES CXX)
