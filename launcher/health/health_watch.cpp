#include "launcher/health/health_watch.hpp"

#include <fmt/core.h>

#include <boost/system/system_error.hpp>

#include "launcher/health/health_port.hpp"
#include "launcher/health/health_server.hpp"

namespace ddprun {

void HealthWatch::began(const boost::asio::any_io_executor& executor, const AgentControls& controls) {
    try {
        serve_health(executor, port_, [status = controls.status] { return health_text(status()); });
    } catch (const boost::system::system_error& error) {
        on_trouble_(fmt::format("{} {}: {}; nobody can ask whether this agent is alive, the job goes on",
                                kHealthPortVariable, port_, error.what()));
    }
}

}  // namespace ddprun
