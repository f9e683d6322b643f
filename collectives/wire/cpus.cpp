#include "collectives/wire/cpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>

namespace ddprun::inline detail {

int cpus_of_control_group() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    long period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return INT_MAX;
    return static_cast<int>(std::max(1L, std::strtol(quota.c_str(), nullptr, 10) / period));
}

int cpus_of_this_machine() {
    const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
    return std::min(static_cast<int>(std::max(1L, online)), cpus_of_control_group());
}

}  // namespace ddprun::inline detail
