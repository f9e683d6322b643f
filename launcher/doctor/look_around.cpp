#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "launcher/doctor/questions.hpp"
#include "launcher/doctor/surroundings.hpp"
#include "launcher/plan/gpus.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/system/resource_limits.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::array<const char*, 10> kProxyVariables = {
    "http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "grpc_proxy",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "GRPC_PROXY"};

constexpr std::size_t kMaxVersionFile = 64 * 1024;

void look_at_system(Surroundings& seen) {
    utsname system{};
    ::uname(&system);
    seen.version = DDPRUN_VERSION;
    seen.compiler = __VERSION__;
    seen.glibc = ::gnu_get_libc_version();
    seen.kernel = system.release;
    seen.machine = system.machine;
}

ClockFacts look_at_clock() {
    timex clock{};
    const int state = ::adjtimex(&clock);
    if (state < 0) return {std::nullopt, std::strerror(errno)};
    return {state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0, ""};
}

std::vector<std::string> look_for_idle_interfaces(const std::vector<LocalAddress>& addresses) {
    std::vector<std::string> idle;
    const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> all(::if_nameindex(),
                                                                                   ::if_freenameindex);
    for (const auto* one = all.get(); one != nullptr && one->if_index != 0; ++one) {
        const std::string name = one->if_name;
        if (std::none_of(addresses.begin(), addresses.end(),
                         [&name](const LocalAddress& address) { return address.interface == name; }))
            idle.push_back(name);
    }
    return idle;
}

// 0, or why nobody could listen there. As ddprun does it, so that what is only waited for does not count.
int bind_error(std::uint16_t port) {
    constexpr int kYes = 1, kNo = 0;
    OwnedDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool is_v6 = static_cast<bool>(socket);
    if (!is_v6) socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return errno;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
    if (is_v6) {
        ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &kNo, sizeof(kNo));
        sockaddr_in6 any{};
        any.sin6_family = AF_INET6;
        any.sin6_port = htons(port);
        if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0) return 0;
        if (errno == EADDRINUSE) return errno;
        socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof(kYes));
    }
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0 ? 0 : errno;
}

PortFacts look_at_port(const PortAsked& asked) {
    PortFacts facts{asked.port, asked.is_needed, bind_error(asked.port), ""};
    if (facts.error_number != EADDRINUSE) return facts;
    if (const auto owner = find_port_owner(asked.port))
        facts.holder = fmt::format("pid {} ({})", owner->pid, owner->command);
    return facts;
}

GpuFacts look_at_gpus(const Environment& environment) {
    GpuFacts facts;
    facts.gpus = find_gpus();
    facts.devices = find_devices(environment, facts.gpus);
    const auto version = read_small_file("/proc/driver/nvidia/version", kMaxVersionFile);
    if (version) facts.driver = parse_driver_version(*version).value_or("");
    return facts;
}

SpaceFacts look_at_shared_memory() {
    constexpr const char* kFolder = "/dev/shm";
    struct statvfs space {};
    if (::statvfs(kFolder, &space) != 0 || ::access(kFolder, W_OK | X_OK) != 0) return {errno, 0, 0};
    const auto block = static_cast<std::uint64_t>(space.f_frsize);
    return {0, block * space.f_blocks, block * space.f_bavail};
}

LimitFacts look_at_limit(__rlimit_resource resource) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) return {};
    const auto known = [](rlim_t value) {
        return value == RLIM_INFINITY ? std::nullopt : std::optional<std::uint64_t>(value);
    };
    return {known(limit.rlim_cur), known(limit.rlim_max)};
}

LimitsFacts look_at_limits(std::size_t workers) {
    std::error_code ignored;
    const std::filesystem::directory_iterator rdma("/sys/class/infiniband", ignored);
    return {look_at_limit(RLIMIT_NOFILE),
            look_at_limit(RLIMIT_MEMLOCK),
            look_at_limit(RLIMIT_NPROC),
            look_at_limit(RLIMIT_CORE),
            ::geteuid() == 0,
            !ignored && rdma != std::filesystem::directory_iterator(),
            least_descriptors(workers)};
}

std::optional<std::string> path_of(const Environment& environment) {
    const std::string* path = find_variable(environment, "PATH");
    return path != nullptr ? std::optional(*path) : std::nullopt;
}

// `usual` if that is one of them.
template <class Fits>
std::optional<std::string> address_that(const std::vector<LocalAddress>& own, const std::string& usual,
                                        Fits fits) {
    std::optional<std::string> first;
    for (const LocalAddress& one : own) {
        if (!fits(one)) continue;
        if (one.address == usual) return usual;
        if (!first) first = one.address;
    }
    return first;
}

}  // namespace

Surroundings look_around(const LookRequest& request) {
    Surroundings seen;
    // They all wait at the same time.
    std::vector<std::unique_ptr<BoundedChild>> folders;
    for (const FolderQuestion& folder : request.folders)
        folders.push_back(std::make_unique<BoundedChild>(ask_folder(folder)));
    std::optional<BoundedChild> name, python;
    if (request.asks_name) name.emplace(ask_name(request.host));
    if (request.python)
        python.emplace(ask_python(exec_candidates(*request.python, path_of(request.environment))));
    const Deadline deadline = std::chrono::steady_clock::now() + kLookLimit;

    look_at_system(seen);
    seen.host = request.host;
    seen.clock = look_at_clock();
    seen.addresses = local_addresses();
    seen.idle_interfaces = look_for_idle_interfaces(seen.addresses);
    for (const PortAsked& port : request.ports) seen.ports.push_back(look_at_port(port));
    seen.gpu = look_at_gpus(request.environment);
    seen.shared_memory = look_at_shared_memory();
    seen.limits = look_at_limits(request.workers);
    seen.capacity = {static_cast<int>(affinity_cpus().size()), find_cpu_quota(), memory_limit()};
    for (const char* variable : kProxyVariables) {
        const std::string* value = find_variable(request.environment, variable);
        if (value != nullptr && !value->empty()) seen.proxies.emplace_back(variable);
    }
    seen.sees_processes = sees_own_processes();

    for (std::size_t i = 0; i < folders.size(); ++i)
        seen.folders.push_back(folder_facts(request.folders[i], folders[i]->await(deadline)));
    if (name) seen.name = name_facts(name->await(deadline));
    if (python) seen.python = python_facts(*request.python, python->await(deadline));
    return seen;
}

std::string meeting_address(const Environment& environment, const std::string& node_addr,
                            const std::vector<LocalAddress>& own) {
    if (const std::string* text = find_variable(environment, "DDPRUN_NET")) {
        const auto networks = parse_networks(*text);
        const auto found = address_that(own, node_addr, [&networks](const LocalAddress& one) {
            return networks &&
                   std::any_of(networks->begin(), networks->end(),
                               [&one](const Network& network) { return network.contains(one.address); });
        });
        if (found) return *found;
    }
    if (const std::string* interface = find_variable(environment, "GLOO_SOCKET_IFNAME")) {
        const auto found = address_that(
            own, node_addr, [interface](const LocalAddress& one) { return one.interface == *interface; });
        if (found) return *found;
    }
    if (!node_addr.empty()) return node_addr;
    return address_that(own, node_addr, [](const LocalAddress& one) { return !one.is_loopback; })
        .value_or("127.0.0.1");
}

}  // namespace launch
}  // namespace ddprun
