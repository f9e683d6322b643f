// Boost.Asio's TLS, compiled here once, as rendezvous/system/asio.cpp does for the rest of it.
#include <boost/asio/ssl/impl/src.hpp>
