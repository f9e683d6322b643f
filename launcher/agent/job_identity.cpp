#include "launcher/agent/job_identity.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>

#include "rendezvous/system/check.hpp"

namespace ddprun {

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
    return name.data();
}

std::string make_job_id(const std::string& run_id) {
    std::array<unsigned char, 16> random{};
    check(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()),
          "getrandom failed");
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string id = run_id + "-";
    for (unsigned char byte : random) {
        id += kDigits[byte >> 4];
        id += kDigits[byte & 15];
    }
    return id;
}

}  // namespace ddprun
