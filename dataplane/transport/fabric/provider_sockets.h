// The sockets of libfabric's providers net and tcp. The epoll behind a completion queue's
// descriptor watches all of them.
#pragma once

#include <cstdint>
#include <functional>

namespace tally::transport::fabric {

// A queue's descriptor is an epoll over a second epoll and a signal. Returns the second epoll,
// which watches the sockets; the descriptor itself when there is none. Every completion raises the
// signal, and nothing lowers it (fi_trywait does nothing there), so the queue's descriptor would
// stay readable for ever. Completions come from this thread's own progress, so the thread need only
// wait for the sockets.
int sockets_behind(int wait_fd);

// Ends all connections that the provider has accepted at this port, and accepts no more. Calls
// `progress`, which reads the completion queue, until the provider has closed them. Call it before
// an endpoint is closed whose domain goes on.
//
// Reason: the provider accepts a connection before it knows who is there. Its record of a
// connection that has sent nothing yet refers to the endpoint. When the endpoint is closed, the
// provider uses freed memory at the next event of that connection (in 1.17 and in the sources of
// 2.6, where a comment in xnet_pep_close() says so). So any process that reached the port could end
// a node.
void end_connections(int sockets, std::uint16_t port, const std::function<void()>& progress);

}  // namespace tally::transport::fabric
