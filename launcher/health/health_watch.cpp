#include "launcher/health/health_watch.hpp"

#include <fmt/core.h>

#include <boost/system/system_error.hpp>

#include "launcher/health/health_port.hpp"
#include "launcher/health/health_server.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

std::string taken_text(std::uint16_t port) {
    const auto owner = find_port_owner(port);
    return owner ? fmt::format("the port is held by pid {} ({})", owner->pid, owner->command)
                 : std::string("the port is taken");
}

}  // namespace

void HealthWatch::began(const boost::asio::any_io_executor& executor, const AgentControls& controls) {
    try {
        serve_health(executor, port_, [status = controls.status] { return health_text(status()); });
    } catch (const boost::system::system_error& error) {
        const std::string why = error.code() == Errc::address_in_use ? taken_text(port_) : error.what();
        on_trouble_(fmt::format("{} {}: {}; nobody can ask whether this agent is alive, the job goes on",
                                kHealthPortVariable, port_, why));
    }
}

}  // namespace ddprun::inline launch
