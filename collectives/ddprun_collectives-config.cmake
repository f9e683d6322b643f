# find_package(ddprun_collectives) gives the target ddprun::collectives.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/ddprun_collectives-targets.cmake)
