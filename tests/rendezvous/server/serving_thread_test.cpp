#include "rendezvous/server/port_service.hpp"

#include <boost/asio/post.hpp>
#include <stdexcept>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddprun {

TEST_CASE("a serving thread tells of the first handler that fails, and runs the others") {
    boost::asio::io_context context;
    std::vector<std::string> told;
    int served = 0;
    for (int i = 0; i < 3; ++i) {
        boost::asio::post(context, [i] { throw std::runtime_error("handler " + std::to_string(i)); });
        boost::asio::post(context, [&served] { ++served; });
    }
    start_serving(context, [&told](const std::string& what) { told.push_back(what); }).join();
    CHECK(told == std::vector<std::string>{"handler 0"});
    CHECK(served == 3);
}

TEST_CASE("a serving thread needs nobody to tell") {
    boost::asio::io_context context;
    bool served = false;
    boost::asio::post(context, [] { throw std::runtime_error("unheard"); });
    boost::asio::post(context, [&served] { served = true; });
    start_serving(context, {}).join();
    CHECK(served);
}

}  // namespace ddprun
