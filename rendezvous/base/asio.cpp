// Boost.Asio is compiled here once; everything else includes only its declarations.
#include <boost/asio/impl/src.hpp>
