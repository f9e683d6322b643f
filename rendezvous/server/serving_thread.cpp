#include "rendezvous/server/serving_thread.hpp"

#include <exception>
#include <utility>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline job {

std::thread start_serving(boost::asio::io_context& context,
                          std::function<void(const std::string& what)> on_failed) {
    return start_without_signals([&context, on_failed = std::move(on_failed)]() mutable {
        for (;;) {
            try {
                context.run();
                return;
            } catch (const std::exception& error) {
                if (const auto tell = std::exchange(on_failed, {})) tell(error.what());
            }
        }
    });
}

}  // namespace ddprun::inline job
