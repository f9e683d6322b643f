// SealedLink beside an end that reads nothing.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/door/sealed_link.hpp"
#include "rendezvous/secure/noise_handshake.hpp"
#include "rendezvous/secure/sealed_records.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

using boost::asio::ip::tcp;

TEST_CASE("a link whose other end reads nothing ends where too much waits, and says why", "[sealed_link]") {
    boost::asio::io_context context;
    tcp::acceptor listener(context, {boost::asio::ip::address_v4::loopback(), 0});
    tcp::socket silent(context);
    silent.connect(listener.local_endpoint());
    std::optional<std::string> why;
    const auto link = std::make_shared<SealedLink>(
        listener.accept(), SealedRecords(NoiseKeys{SecretKey::fresh(), SecretKey::fresh()}), std::string(),
        SealedLinkEvents{.on_text = [](std::string_view) { return true; },
                         .on_room = [] {},
                         .on_over = [&why](std::string_view said) { why = said; }});
    link->start();
    const std::string answer(SealedLink::kHighWater / 4, 'a');
    // The system holds some, too.
    constexpr std::size_t kMost = 16 * SealedLink::kMostWaiting;
    std::size_t given = 0;
    const std::function<void()> give = [&] {
        if (why || given >= kMost) return;
        link->text() += answer;
        given += answer.size();
        boost::asio::post(context, give);
    };
    boost::asio::post(context, give);
    while (!why && context.run_one_for(kHangGuard) > 0) {
    }
    CHECK(why == "it asks for more than it reads");
    CHECK(given > SealedLink::kMostWaiting);
}

}  // namespace
}  // namespace ddprun
